"""The newest record of each key, by what another engine finds in the same records."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import stratalog
from stratalog.errors import UsageError
from stratalog.jobs.reading.narrowing import Wanted
from stratalog.log.new_records import NewRecord
from stratalog.records.kernels.decode import RECORD
from stratalog.records.walk import new_table
from stratalog.scanning import latest
from stratalog.scanning.latest import NewestOffsets, StoredOffsets
from tests.profile import examples

FIXTURES = Path(__file__).parent.parent / "fixtures"
COLUMNS = ["topic", "partition", "offset", "key", "value"]
NEWEST = """
    SELECT r.* FROM records r JOIN (
        SELECT topic, partition, key, max("offset") AS "offset" FROM records
        WHERE key IS NOT NULL GROUP BY ALL
    ) USING (topic, partition, key, "offset") {where} ORDER BY topic, partition, "offset"
"""


def newest(records: pa.Table, *, tombstones: bool = False) -> list[dict[str, object]]:
    """By DuckDB, from all records."""
    with duckdb.connect() as connection:
        connection.register("records", records)
        query = NEWEST.format(where="" if tombstones else "WHERE value IS NOT NULL")
        found: list[dict[str, object]] = connection.sql(query).to_arrow_table().select(COLUMNS).to_pylist()
        return found


def make_log(directory: Path, seed: int, records: int = 3000) -> Path:
    """Random keys, some null, and values, some null, in small segments and by all codecs."""
    chance = random.Random(seed)
    config = {"internal.segment.bytes": 30_000, "index.interval.bytes": 1000}
    with stratalog.open_log(directory, create=True, config=config) as log:
        while records > 0:
            batch = [
                NewRecord(
                    None if chance.random() < 0.2 else b"v" * chance.randrange(40),
                    None if chance.random() < 0.05 else b"key %d" % chance.randrange(400),
                    (),
                    1_700_000_000_000 + records,
                )
                for _ in range(min(records, chance.choice([1, 5, 40])))
            ]
            log.append_many(batch, codec=chance.choice(["none", "gzip", "zstd", "lz4"]))
            records -= len(batch)
    return directory


@pytest.mark.parametrize("seed", range(examples(30, quick=3)))
@pytest.mark.parametrize("threads", [1, 3])
def test_the_newest_record_of_each_key_is_there_once(
    tmp_path: Path, seed: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest, "FIRST_SLOTS", 4)
    monkeypatch.setattr(latest, "TASK_SIZE", 20_000)
    monkeypatch.setattr(latest, "GROUP_SIZE", 50_000)
    for partition in range(3):
        make_log(tmp_path / f"orders-{partition}", seed * 3 + partition)
    records = stratalog.scan(tmp_path, columns=COLUMNS).to_table()

    view = stratalog.scan(tmp_path, columns=COLUMNS, latest=True, threads=threads)
    whole = stratalog.scan(tmp_path, columns=COLUMNS, latest=True, tombstones=True, threads=threads)

    assert view.to_table().to_pylist() == newest(records)
    assert whole.to_table().to_pylist() == newest(records, tombstones=True)
    assert view.count() == len(newest(records))


@pytest.mark.parametrize("state", ["kafka-4.3.1/clean", "kafka-4.3.1/killed", "kafka-2.8.2/clean"])
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_records_of_real_brokers_too(state: str, isolation: str) -> None:
    """Old formats, transactions, logs that a broker has compacted."""
    logs = FIXTURES / state / "logs"
    records = stratalog.scan(logs, columns=COLUMNS, isolation=isolation).to_table()  # type: ignore[arg-type]

    view = stratalog.scan(
        logs,
        columns=COLUMNS,
        latest=True,
        tombstones=True,
        isolation=isolation,  # type: ignore[arg-type]
    )
    assert view.to_table().to_pylist() == newest(records, tombstones=True)


def test_bounds_are_those_of_the_view(tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        for number, key in enumerate([b"a", b"b", b"a", b"c", b"b"]):
            log.append_many([NewRecord(b"%d" % number, key, (), 1000 * number)])

    def offsets(**bounds: object) -> list[int]:
        scan = stratalog.scan(tmp_path, columns=["offset"], latest=True, **bounds)  # type: ignore[arg-type]
        found: list[int] = scan.to_table()["offset"].to_pylist()
        return found

    assert offsets() == [2, 3, 4]
    assert offsets(until=3000) == [1, 2]
    assert offsets(offsets={"orders-0": (1, 4)}) == [1, 2, 3]


def test_a_query_narrows_it_only_from_below(tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        log.append_many([NewRecord(b"v", key) for key in (b"a", b"b", b"a", b"c")])
    scan = stratalog.scan(tmp_path, latest=True)

    def narrowed(wanted: Wanted | None) -> list[int]:
        found: list[int] = scan.narrowed(["offset"], lambda _: wanted).to_table()["offset"].to_pylist()
        return found

    assert narrowed(Wanted(first_offset=2)) == [2, 3]
    assert narrowed(Wanted(last_offset=1)) == [1, 2, 3]  # 0 is not the newest of its key
    assert narrowed(None) == []


def test_what_is_left_out_is_told_once(tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        for key in (b"a", b"b", b"c"):
            log.append(b"value", key=key)
    (path,) = (tmp_path / "orders-0").glob("*.log")
    data = bytearray(path.read_bytes())
    data[len(data) // 3 + 68] ^= 1
    path.write_bytes(data)
    scan = stratalog.scan(tmp_path, columns=["offset"], latest=True, on_corruption="skip")

    with pytest.warns(stratalog.OmissionWarning, match="1 offset at most"):
        assert scan.to_table()["offset"].to_pylist() == [0, 2]
    assert [(each.first_offset, each.end_offset) for each in scan.omissions] == [(1, 2)]


def test_a_segment_that_is_deleted_between_the_passes_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        for key in (b"a", b"b", b"c"):
            log.append(b"value", key=key)
    scan = stratalog.scan(tmp_path, columns=["offset"], latest=True, fail_on_data_loss=False)
    found = NewestOffsets.offsets

    def after_the_first_pass(newest: NewestOffsets) -> NDArray[np.int64]:
        shutil.rmtree(tmp_path / "orders-0")
        return found(newest)

    monkeypatch.setattr(NewestOffsets, "offsets", after_the_first_pass)

    with pytest.warns(stratalog.OmissionWarning, match="offsets 0 to 2"):
        assert scan.to_table().num_rows == 0


def test_a_record_that_compaction_removes_between_the_passes_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        for key in (b"a", b"b", b"c"):
            log.append(b"value", key=key)
    (path,) = (tmp_path / "orders-0").glob("*.log")
    scan = stratalog.scan(tmp_path, columns=["offset"], latest=True)
    found = NewestOffsets.offsets

    def after_the_first_pass(newest: NewestOffsets) -> NDArray[np.int64]:
        data = path.read_bytes()
        third = len(data) // 3
        path.with_suffix(".swap").write_bytes(data[:third] + data[2 * third :])
        path.with_suffix(".swap").rename(path)
        return found(newest)

    monkeypatch.setattr(NewestOffsets, "offsets", after_the_first_pass)

    with pytest.warns(stratalog.OmissionWarning, match=r"compaction removed records .* \(1 in all\)"):
        assert scan.to_table()["offset"].to_pylist() == [0, 2]
    assert [(each.first_offset, each.end_offset) for each in scan.omissions] == [(1, 2)]


def test_contradictions_are_refused(tmp_path: Path) -> None:
    make_log(tmp_path / "orders-0", 1, records=10)
    with pytest.raises(UsageError, match="tombstones is for latest=True"):
        stratalog.scan(tmp_path, tombstones=True)
    with pytest.raises(UsageError, match="markers have no key"):
        stratalog.scan(tmp_path, latest=True, include_control=True)


def test_a_map_grows_and_keeps_the_highest_offset_whatever_comes_first() -> None:
    rows = np.zeros(6, RECORD)
    rows["offset"] = [5, 1, 9, 3, 7, 8]
    rows["key_position"] = [0, 0, 1, 1, 2, 0]
    rows["key_size"] = [1, 1, 1, 1, 1, -1]
    found = NewestOffsets()

    picked = found.pick_rows(np.frombuffer(b"abcd", np.uint8), rows)

    assert picked is not None
    assert not picked.any()
    assert found.pick_batches(new_table(1)) is None
    assert found.offsets().tolist() == [5, 7, 9]


def test_only_batches_with_a_stored_offset_are_decoded() -> None:
    headers = new_table(4)
    headers["base_offset"], headers["last_offset"] = [0, 5, 10, 30], [4, 9, 14, 39]
    headers["magic"] = [2, 2, 2, 1]
    stored = StoredOffsets(np.array([4, 12, 20]), with_tombstones=False)

    assert np.asarray(stored.pick_batches(headers)).tolist() == [True, False, True, True]
