"""The Parquet files that a task writes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import stratalog
from stratalog.engine.threads import ThreadEngine
from stratalog.jobs.export import export_logs
from stratalog.jobs.exporting import parquet
from stratalog.log.new_records import NewRecord
from tests.jobs.exporting.exported import HOUR_MS, ROWS, T0, export, exported, fill, offsets, options


def test_files_are_by_topic_and_day(logs: Path, tmp_path: Path) -> None:
    fill(logs, "late", [b"x"], start=T0 + 48 * HOUR_MS)

    report = export(logs, tmp_path / "out")

    found = sorted(
        str(path.parent.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.parquet")
    )
    # 30 hours from 22:13: 2 on the first day, 24 on the second, 4 on the third.
    assert found == [
        "topic=late/date=2023-11-16",
        "topic=orders/date=2023-11-14",
        "topic=orders/date=2023-11-15",
        "topic=orders/date=2023-11-16",
    ]
    days = Counter(str(row["date"]) for row in exported(tmp_path / "out") if row["topic"] == "orders")
    assert days == {"2023-11-14": 2, "2023-11-15": 24, "2023-11-16": 4}
    assert (report.rows, report.files, report.undecoded) == (31, 4, 0)
    assert report.size == sum(path.stat().st_size for path in (tmp_path / "out").rglob("*.parquet"))


def test_many_days_out_of_order_do_not_keep_many_files_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "OPEN_FILES", 3)
    monkeypatch.setattr(parquet, "BUFFERED_SIZE", 2000)
    with stratalog.open_log(tmp_path / "logs" / "orders-0", create=True) as log:
        for number in range(200):
            log.append_many([NewRecord(b"x" * 20, None, (), T0 + number * 7 % 20 * 24 * HOUR_MS)])

    export(tmp_path / "logs", tmp_path / "out")

    assert offsets(tmp_path / "out") == list(range(200))
    assert len({row["date"] for row in exported(tmp_path / "out")}) == 20


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "lz4", "none"])
def test_each_codec_is_read_back(logs: Path, tmp_path: Path, codec: str) -> None:
    export_logs(ThreadEngine(1), options(logs), str(tmp_path / "out"), ROWS, codec=codec)

    file = next((tmp_path / "out").rglob("*.parquet"))
    used = pq.ParquetFile(file).metadata.row_group(0).column(0).compression
    assert used == {"none": "UNCOMPRESSED"}.get(codec, codec.upper())
    assert offsets(tmp_path / "out") == list(range(30))
