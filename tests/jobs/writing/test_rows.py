"""Which partition a row goes to, and rows that no partition takes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from stratalog.errors import UsageError
from stratalog.files.disk import Disk
from stratalog.jobs.writing import stage
from stratalog.jobs.writing.options import WriteOptions
from stratalog.jobs.writing.rows import RowRouter
from stratalog.jobs.writing.target import find_target
from tests.jobs.writing.sinking import Writing, arrow, by_partition, contents_of, names_in, records_of, write

with warnings.catch_warnings():
    # kafka-python loads its schemas by a function that Python 3.11 calls deprecated, and later ones do not.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2


SEVEN = {"topic": "orders", "partitions": "7"}


def test_a_key_goes_where_a_producer_would_send_it(tmp_path: Path) -> None:
    keys = [b"key %d" % number for number in range(200)]

    write(str(tmp_path), {"key": keys, "value": keys}, **SEVEN)

    expected: dict[int, list[bytes]] = {number: [] for number in range(7)}
    for key in keys:
        expected[(murmur2(key) & 0x7FFFFFFF) % 7].append(key)
    assert by_partition(contents_of(tmp_path), "orders") == expected


def test_rows_without_a_key_stay_together_and_take_turns(tmp_path: Path) -> None:
    writing = Writing(str(tmp_path), **SEVEN)
    writing.task({"value": [b"a", b"b"]}, {"value": [b"c"]})
    writing.commit()

    assert by_partition(contents_of(tmp_path), "orders") == {0: [b"a", b"b"], 1: [b"c"]}


def test_a_partition_that_is_given_wins_over_the_key(tmp_path: Path) -> None:
    rows = {"key": [b"foobar", b"foobar"], "value": [b"a", b"b"], "partition": [3, None]}

    write(str(tmp_path), rows, **SEVEN)

    chosen = (murmur2(b"foobar") & 0x7FFFFFFF) % 7
    assert by_partition(contents_of(tmp_path), "orders") == {3: [b"a"], chosen: [b"b"]}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"value": [b"a"], "partition": [7]}, r"partition 7 of the topic orders, which has 7 \(0 to 6\)"),
        ({"value": [b"a"], "partition": [-1]}, "partition -1"),
        ({"value": [b"a"], "timestamp": [-5_000]}, "before 1970"),
        ({"value": [b"x" * 2_000_000]}, "max.message.bytes"),
    ],
)
def test_what_no_partition_takes_is_told_and_leaves_nothing(
    tmp_path: Path, rows: dict[str, list[object]], words: str
) -> None:
    writing = Writing(str(tmp_path), **SEVEN)

    with pytest.raises(UsageError, match=words):
        writing.task({"value": [b"good"]}, rows)

    writing.committer.discard()
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Berlin", "UTC", None])
def test_every_hour_of_a_year_has_its_time_in_any_zone(tmp_path: Path, zone: str | None) -> None:
    hours = [1_767_225_600_000 + 1_800_000 * number for number in range(2 * 24 * 365)]  # 2026, half by half
    column = pa.array([1000 * hour + 999 for hour in hours], pa.timestamp("us", zone))
    batch = pa.record_batch({"value": pa.nulls(len(hours), pa.binary()), "timestamp": column})
    router = RowRouter(find_target(Disk(), WriteOptions.parse({"path": str(tmp_path), **SEVEN})), first=0)

    ((_, _, records),) = router.split(batch, 0)

    assert records.column("timestamp").to_pylist() == hours


def test_a_record_that_was_read_without_a_time_is_written_without_one(tmp_path: Path) -> None:
    write(str(tmp_path), {"value": [b"old"], "timestamp": [-1_000], "partition": [0]}, **SEVEN)

    assert [record.timestamp for record in records_of(contents_of(tmp_path), "orders-0")] == [-1]
    assert (tmp_path / "orders-0" / f"{0:020d}.timeindex").read_bytes() == b""


def test_a_row_without_a_topic_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a row has no topic"):
        Writing(str(tmp_path), partitions="1").task({"topic": ["a", None], "value": [b"1", b"2"]})


def test_a_compacted_topic_takes_no_row_without_a_key(tmp_path: Path) -> None:
    settings = '{"orders": {"cleanup.policy": "compact"}}'

    with pytest.raises(UsageError, match="no key, and the topic is compacted"):
        Writing(str(tmp_path), **SEVEN, topicSettings=settings).task(
            {"key": [b"k", None], "value": [b"1", b"2"]}
        )


def test_a_partition_that_gets_a_row_now_and_then_does_not_keep_all_rows_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "MOST_BYTES", 1 << 20)
    before = pa.total_allocated_bytes()
    most = 0

    def rows() -> Iterator[pa.RecordBatch]:
        nonlocal most
        for _ in range(100):
            most = max(most, pa.total_allocated_bytes() - before)
            yield arrow({"value": [b"x" * 100_000] * 2 + [b"y"], "partition": [0, 0, 1]})

    writing = Writing(str(tmp_path), **SEVEN)
    stage.stage_rows(
        writing.disk, writing.target, rows(), write=writing.name, attempt="0", turn=0, clock=writing.clock
    )

    assert most < 5 << 20  # of 20 MB in all
