"""Offsets by time, against the records that Kafka's own classes read in the fixtures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import stratalog
from stratalog.errors import UsageError
from stratalog.log.new_records import NewRecord
from stratalog.log.timestamps import SpecialTimestamp
from stratalog.operations.report import Status
from stratalog.questions.offsets import OffsetsQuestion
from tests.fixtures.catalog import Partition, partitions
from tests.jobs.reading.making import TRIMMED_START, kafka_rows

T0 = 1_700_000_000_000
# Kafka's tool asks a broker for these; the metadata log is not a topic to clients.
ASKED = [each for each in partitions() if not each.name.startswith("__cluster_metadata")]


def answer(partition: Partition, time: int) -> int | None:
    question = OffsetsQuestion(directories=[str(partition.path.parent)], names=[partition.name], time=time)
    (found,) = question.run().answers
    assert found.problem is None
    return found.offset


@pytest.mark.parametrize("partition", ASKED, ids=str)
@pytest.mark.parametrize("time", [0, T0, T0 + 10, T0 + 19, T0 + 10**9, 1 << 60])
def test_a_time_is_the_first_record_that_is_not_before_it(partition: Partition, time: int) -> None:
    start = TRIMMED_START if partition.name == "trimmed-0" else 0
    expected = next(
        (
            record["offset"]
            for _, record in kafka_rows(partition)
            if record["timestamp"] >= time and record["offset"] >= start
        ),
        None,
    )

    assert answer(partition, time) == expected


@pytest.mark.parametrize("partition", ASKED, ids=str)
def test_latest_is_one_past_the_last_batch(partition: Partition) -> None:
    ends = [batch["lastOffset"] + 1 for batch, _ in kafka_rows(partition)]

    assert answer(partition, SpecialTimestamp.LATEST) == max(ends, default=0)


@pytest.mark.parametrize("partition", ASKED, ids=str)
def test_the_largest_time_is_that_of_its_first_record(partition: Partition) -> None:
    records = [record for _, record in kafka_rows(partition)]
    largest = max((record["timestamp"] for record in records), default=None)
    expected = next((each["offset"] for each in records if each["timestamp"] == largest), None)
    if largest is not None and largest < 0:  # format 0 has no times
        expected = None

    assert answer(partition, SpecialTimestamp.MAX_TIMESTAMP) == expected


def test_all_partitions_are_asked_without_a_name(tmp_path: Path) -> None:
    for name, count in (("orders-0", 3), ("orders-1", 0), ("bills-0", 1)):
        with stratalog.open_log(tmp_path / name, create=True) as log:
            for number in range(count):
                log.append_many([NewRecord(b"v", None, (), T0 + number)])

    report = OffsetsQuestion(directories=[str(tmp_path)], time=T0 + 1).run()

    assert [(each.topic, each.partition, each.offset, each.timestamp) for each in report.answers] == [
        ("bills", 0, None, None),
        ("orders", 0, 1, T0 + 1),
        ("orders", 1, None, None),
    ]
    assert report.status is Status.FINE
    assert report.verdict.endswith("2 of them have no such record.")
    assert report.totals() == {"partitions": 3, "found": 1, "failed": 0}
    assert [row[2] for row in report.tables()[0].rows] == ["-", "1", "-"]


def test_a_partition_that_cannot_be_read_is_named_and_the_others_are_answered(tmp_path: Path) -> None:
    config = {"internal.segment.bytes": 1000}
    for name in ("orders-0", "orders-1"):
        with stratalog.open_log(tmp_path / name, create=True, config=config) as log:
            for number in range(30):
                log.append_many([NewRecord(b"v" * 100, None, (), T0 + number)])
    for index in (tmp_path / "orders-1").glob("*index"):
        index.unlink()
    first = sorted((tmp_path / "orders-1").glob("*.log"))[0]
    data = bytearray(first.read_bytes())
    data[16] = 9  # the format of the first batch
    first.write_bytes(data)

    report = OffsetsQuestion(directories=[str(tmp_path)], time=T0 + 1).run()

    good, bad = report.answers
    assert (good.offset, good.problem) == (1, None)
    assert bad.offset is None
    assert bad.problem is not None
    assert report.status is Status.FAILED
    assert report.words() == [f"orders-1: {bad.problem}"]
    assert report.verdict.endswith("1 of them could not be read.")


def test_a_name_that_is_not_there_is_told(tmp_path: Path) -> None:
    stratalog.open_log(tmp_path / "orders-0", create=True).close()

    with pytest.raises(UsageError, match=r"the command names order, .* did you mean orders"):
        OffsetsQuestion(directories=[str(tmp_path)], names=["order"]).run()


def test_a_first_segment_that_a_cleaner_has_emptied_hides_no_record(tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        for number in range(3):
            log.append_many([NewRecord(b"v", None, (), T0 + number)])
            log.log.roll()
        log.append_many([NewRecord(b"v", None, (), T0 + 3)])
    for name in ("log", "index", "timeindex"):
        os.truncate(tmp_path / "orders-0" / f"{0:020d}.{name}", 0)

    # The time of the empty segment is that of its file, so it reaches both.
    assert [found(tmp_path, time) for time in (T0, T0 + 2)] == [1, 2]


def found(directory: Path, time: int) -> int | None:
    (only,) = OffsetsQuestion(directories=[str(directory)], time=time).run().answers
    return only.offset
