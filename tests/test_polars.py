"""`stratalog.polars.scan`: columns and predicates of a query leave out what it cannot want."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import stratalog
from stratalog.errors import UsageError
from stratalog.installing import install_command
from stratalog.polars import lazy, scan
from stratalog.records.columns import ALL_COLUMNS
from tests.profile import examples
from tests.scanning.querying import PARTITIONS, RECORDS_COUNT, make_logs, random_query
from tests.waiting import PATIENCE_S

EVERY = len(PARTITIONS) * RECORDS_COUNT
COLUMNS = ["topic", "partition", "offset", "timestamp", "value"]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_logs(tmp_path_factory.mktemp("polars"))


def test_a_lazy_frame_has_the_rows_and_types_of_the_scan(logs: Path) -> None:
    records = stratalog.scan(logs, columns=ALL_COLUMNS)

    assert_frame_equal(scan(logs, columns=ALL_COLUMNS).collect(), pl.DataFrame(records))
    assert lazy(records).collect_schema() == pl.DataFrame(records).schema
    assert scan(logs).select(pl.len()).collect().item() == EVERY


def test_predicates_that_are_pushed_down_give_the_same_rows_as_filtering_afterwards(logs: Path) -> None:
    frame = scan(logs, columns=COLUMNS, threads=1)
    everything = frame.collect()
    chance = random.Random(11)

    for _ in range(examples(500)):
        query = random_query(chance)
        some = chance.sample(COLUMNS, chance.randrange(1, 6))

        found = frame.filter(query.to_polars()).select(some).collect()

        assert_frame_equal(found, everything.filter(query.to_polars()).select(some))


@pytest.mark.parametrize("tail", ["cut", "zero"])
def test_a_time_index_that_lacks_entries_loses_no_row(tmp_path: Path, tail: str) -> None:
    """As after a power cut, before a broker has recovered the log."""
    make_logs(tmp_path)
    for path in tmp_path.glob("*/*.timeindex"):
        data = path.read_bytes()
        path.write_bytes(data[:12] + (b"" if tail == "cut" else bytes(len(data[12:]))))
    times = scan(tmp_path).collect()["timestamp"]

    for at in times.unique().sort(descending=True)[:20]:
        query = pl.col("timestamp") >= at
        assert len(scan(tmp_path).filter(query).collect()) == (times >= at).sum()


def test_nulls_that_are_equal_are_not_lost(tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        log.append(b"1", key=b"a")
        log.append(b"2")
    frame = scan(tmp_path, key="utf8")

    found = frame.filter(pl.col("key").is_in([None], nulls_equal=True)).collect()

    assert found["offset"].to_list() == [1]


@pytest.mark.parametrize(
    ("query", "most"),
    [
        (pl.col("offset") == 100, 6 * 50),
        ((pl.col("topic") == "bills") & (pl.col("offset") > 380), 50),
        (pl.col("topic") == "nothing", 0),
        (pl.col("partition").is_in([3, 4]), 2 * RECORDS_COUNT),
    ],
)
def test_what_a_query_cannot_want_is_not_read(
    logs: Path, query: pl.Expr, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0
    frames = pl.from_arrow

    def counted(batch: object) -> pl.DataFrame:
        nonlocal read
        frame = frames(batch)  # type: ignore[arg-type]
        assert isinstance(frame, pl.DataFrame)
        read += len(frame)
        return frame

    frame = scan(logs)
    monkeypatch.setattr(pl, "from_arrow", counted)
    found = frame.filter(query).collect()

    assert len(found) <= read <= most


def test_a_limit_ends_the_reading(logs: Path) -> None:
    frame = scan(logs, columns=["offset", "value"])

    assert frame.head(5).collect()["offset"].to_list() == [0, 1, 2, 3, 4]
    assert frame.filter(pl.col("offset") > 7).head(2).collect()["offset"].to_list() == [8, 9]
    assert frame.sort("offset", descending=True).head(2).collect()["offset"].to_list() == [399, 399]
    assert frame.filter(pl.col("offset") < 50).top_k(1, by="offset").collect()["offset"].to_list() == [49]


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_the_first_rows_are_taken_before_they_are_filtered(logs: Path, engine: Any) -> None:
    frame = scan(logs, columns=["topic", "partition", "offset"])
    wanted = pl.col("offset") > 300

    found = frame.head(350).filter(wanted).collect(engine=engine)

    assert found.equals(frame.collect().head(350).filter(wanted))
    assert 0 < len(found) < 350


def test_what_does_not_exist_is_refused_at_the_call(logs: Path) -> None:
    with pytest.raises(UsageError, match=r"did you mean orders\?"):
        scan(logs, topics="ordrs")


def test_without_polars_it_says_what_to_install() -> None:
    script = "import sys; sys.modules['polars'] = None; import stratalog.polars"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S)

    assert install_command("polars") in done.stderr
