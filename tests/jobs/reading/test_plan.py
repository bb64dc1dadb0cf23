"""How a read is cut into tasks, and what it does not read."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path

import pytest

import stratalog
from stratalog.errors import CorruptRecordError, OffsetOutOfRangeError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.entries import DirectoryEntry
from stratalog.files.entries import Path as FilePath
from stratalog.jobs.reading import plan as planning
from stratalog.jobs.reading.options import ReadOptions
from stratalog.jobs.reading.plan import plan_read
from stratalog.log.new_records import NewRecord
from tests.fixtures.catalog import Partition, partitions
from tests.jobs.reading.making import T0, Made, batches_of, plan, read, rows_of

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
CLEAN = FIXTURES / "kafka-4.3.1" / "clean" / "logs"


def sizes(path: Path, **options: str) -> list[int]:
    return [sum(split.size for split in task.splits) for task in plan(path, **options)]


def test_small_segments_are_packed_into_one_task(made_log: Made) -> None:
    (task,) = plan(made_log.path)

    assert len(task.splits) == len(list(made_log.path.glob("*.log"))) == 5


def test_at_least_so_many_partitions_are_made_inside_segments(made_log: Made) -> None:
    tasks = plan(made_log.path, minPartitions="40")

    assert len(tasks) >= 40 > len(list(made_log.path.glob("*.log")))
    assert rows_of(tasks) == made_log.all_rows


def test_a_large_partition_feeds_every_core(made_log: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "SMALLEST_TASK", 1000)

    found = [sum(split.size for split in task.splits) for task in plan(made_log.path, cores=8)]

    assert 16 <= len(found) <= 32
    assert max(found) < 2 * sum(found) / len(found)


def test_each_byte_is_in_one_task(made_log: Made) -> None:
    total = sum(file.stat().st_size for file in made_log.path.glob("*.log"))

    assert sum(sizes(made_log.path, minPartitions="30")) == total


def test_no_task_has_more_records_than_allowed(made_log: Made) -> None:
    tasks = plan(made_log.path, maxRecordsPerPartition="77")

    assert max(len(rows_of([task])) for task in tasks) <= 77
    assert rows_of(tasks) == made_log.all_rows


def test_an_hour_of_a_day_reads_few_bytes(made_log: Made) -> None:
    options = {
        "startingTimestamp": str(T0 + 1000 * 1000),
        "endingTimestamp": str(T0 + 1000 * 1030),
    }

    assert read(made_log.path, **options) == made_log.rows(range(1000, 1030))
    assert sum(sizes(made_log.path, **options)) < sum(sizes(made_log.path)) / 50


@pytest.mark.parametrize(
    ("start", "end"), [(0, 3000), (5, 6), (997, 1003), (1234, 2345), (2999, 3000), (7, 7)]
)
def test_offsets_are_found_inside_segments_and_batches(made_log: Made, start: int, end: int) -> None:
    options = {
        "startingOffsets": f'{{"orders": {{"0": {start}}}}}',
        "endingOffsets": f'{{"orders": {{"0": {end}}}}}',
    }

    assert read(made_log.path, **options) == made_log.rows(range(start, end))


@pytest.mark.parametrize("partition", partitions("2.8.2", "clean"), ids=str)
def test_messages_of_old_formats_are_cut_at_any_offset(partition: Partition) -> None:
    logs, topic = {log.name for log in partition.logs}, partition.name.rpartition("-")[0]
    kafkas = [
        record["offset"]
        for batch in partition.batches()
        if batch["file"] in logs and not batch["isControl"]
        for record in batch["records"]
    ]

    def offsets(**options: str) -> list[int]:
        return [row["offset"] for row in read(partition.path, columns=("offset",), **options)]

    for cut in kafkas[:: max(1, len(kafkas) // 50)]:
        at = f'{{"{topic}": {{"0": {cut}}}}}'
        assert offsets(endingOffsets=at) == [offset for offset in kafkas if offset < cut]
        assert offsets(startingOffsets=at) == [offset for offset in kafkas if offset >= cut]
    for most in (1, 3):
        assert offsets(maxRecordsPerPartition=str(most)) == kafkas


def test_a_start_behind_a_broken_batch_passes_over_nothing_in_silence(own_log: Made) -> None:
    """Its length reaches beyond the segment: from there on no batch is found, but for the index."""
    log = sorted(own_log.path.glob("*.log"))[1]
    data = bytearray(log.read_bytes())
    (length,) = struct.unpack_from(">i", data, 8)
    struct.pack_into(">i", data, 12 + length + 8, len(data))
    log.write_bytes(data)
    log.with_suffix(".index").unlink()
    start = int(log.stem) + 100
    tasks = plan(own_log.path, startingOffsets=f'{{"orders": {{"0": {start}}}}}')

    with pytest.raises(CorruptRecordError, match="are not a whole batch"):
        rows_of(tasks)


@pytest.mark.parametrize("damage", ["removed", "empty", "zeros", "shifted"])
def test_a_bad_index_leads_to_no_wrong_offset(own_log: Made, damage: str) -> None:
    for index in own_log.path.glob("*.index"):
        data = index.read_bytes()
        if damage == "removed":
            index.unlink()
        else:
            index.write_bytes(
                {"empty": b"", "zeros": bytes(len(data)), "shifted": data[4:] + data[:4]}[damage]
            )
    options = {
        "startingOffsets": '{"orders": {"0": 1234}}',
        "endingOffsets": '{"orders": {"0": 2345}}',
        "minPartitions": "20",
    }

    assert read(own_log.path, **options) == own_log.rows(range(1234, 2345))


@pytest.mark.parametrize("release", ["2.0 to 3.9.0", "up to 1.1"])
def test_an_index_of_whole_appends_leads_to_places_for_cuts_too(own_log: Made, release: str) -> None:
    """Before 3.9.1 an entry was about all batches that a follower, or the cleaner, appended at once."""
    for log in own_log.path.glob("*.log"):
        batches, position, entries = list(batches_of(log)), 0, b""
        for first in range(0, len(batches), 5):
            together = batches[first : first + 5]
            offset = together[0][1] if release == "up to 1.1" else together[-1][2]
            entries += struct.pack(">ii", offset - int(log.stem), position) if position else b""
            position += sum(len(batch) for batch, _, _ in together)
        log.with_suffix(".index").write_bytes(entries)
    options = {
        "startingOffsets": '{"orders": {"0": 1234}}',
        "endingOffsets": '{"orders": {"0": 2345}}',
        "minPartitions": "20",
    }

    tasks = plan(own_log.path, **options)

    assert len(tasks) >= 15  # of segments there are three
    assert rows_of(tasks) == own_log.rows(range(1234, 2345))


def test_a_plan_is_small_and_can_be_pickled(made_log: Made) -> None:
    (task,) = plan(made_log.path)

    assert pickle.loads(pickle.dumps(task)) == task
    assert len(pickle.dumps(task)) < 400 * len(task.splits)


def test_a_log_that_starts_inside_a_batch_is_read_from_there() -> None:
    rows = read(CLEAN, columns=("offset",), subscribe="trimmed")

    assert [row["offset"] for row in rows] == list(range(17, 30))


def test_offsets_that_are_not_there_are_refused_with_those_that_are() -> None:
    with pytest.raises(
        OffsetOutOfRangeError, match=r"trimmed-0 in .* has no offset 3; it has 17 to 30"
    ) as caught:
        plan(CLEAN, subscribe="trimmed", startingOffsets='{"trimmed": {"0": 3}}')

    assert (caught.value.offset, caught.value.valid) == (3, (17, 30))
    with pytest.raises(OffsetOutOfRangeError, match="failOnDataLoss=false"):
        plan(CLEAN, subscribe="trimmed", endingOffsets='{"trimmed": {"0": 31}}')


def test_offsets_that_are_not_there_can_be_forgiven() -> None:
    options = {
        "subscribe": "trimmed",
        "startingOffsets": '{"trimmed": {"0": 3}}',
        "endingOffsets": '{"trimmed": {"0": 99}}',
        "failOnDataLoss": "false",
    }

    assert len(read(CLEAN, columns=("offset",), **options)) == 13


def test_a_partition_without_an_offset_is_named() -> None:
    with pytest.raises(UsageError, match="startingOffsets does not name codecs-0"):
        plan(CLEAN, subscribe="codecs,txn", startingOffsets='{"txn": {"0": 3}}')
    with pytest.raises(UsageError, match="endingOffsets names txn-1, but this read does not include them"):
        plan(CLEAN, subscribe="txn", endingOffsets='{"txn": {"0": 3, "1": 4}}')


def test_a_start_behind_all_times_is_refused_unless_told_otherwise(made_log: Made) -> None:
    late = {"startingTimestamp": str(T0 * 2)}

    with pytest.raises(UsageError, match="orders-0 has no record at or after that time"):
        plan(made_log.path, **late)
    assert plan(made_log.path, startingOffsetsByTimestampStrategy="latest", **late) == []


@pytest.mark.parametrize("number", [100, 150, 198, 199])
def test_a_time_is_found_behind_the_last_entry_of_the_time_index(tmp_path: Path, number: int) -> None:
    """Whoever writes a log notes its largest time now and then, and when it closes: here neither."""
    records = [NewRecord(b"%03d" % each * 20, None, (), T0 + 1000 * each) for each in range(200)]
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        for record in records:
            log.append_many([record])
        at = str(T0 + 1000 * number)

        def offsets(**options: str) -> list[int]:
            return [row["offset"] for row in read(tmp_path, columns=("offset",), **options)]

        assert offsets(startingTimestamp=at) == list(range(number, 200))
        assert offsets(endingTimestamp=at) == list(range(number))


def test_the_latest_and_the_earliest_offset_can_stand_in_the_place_of_a_time(made_log: Made) -> None:
    def offsets(start: int, end: int) -> list[int]:
        options = {
            "startingOffsetsByTimestamp": f'{{"orders": {{"0": {start}}}}}',
            "endingOffsetsByTimestamp": f'{{"orders": {{"0": {end}}}}}',
        }
        return [row["offset"] for row in read(made_log.path, columns=("offset",), **options)]

    assert offsets(-2, -1) == list(range(3000))
    assert offsets(T0 + 2_998_000, -1) == [2998, 2999]
    assert offsets(-2, T0 + 2000) == [0, 1]
    assert offsets(-1, -1) == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"startingTimestamp": str(T0 + 1_000_000)},
            "to find out where that time begins.*offsets instead of times",
        ),
        (
            {"isolation": "read_committed"},
            "to find out which transactions were aborted.*isolation=read_uncommitted",
        ),
    ],
)
def test_damage_that_a_plan_cannot_get_past_is_named_with_a_way_around_it(
    own_log: Made, options: dict[str, str], says: str
) -> None:
    for file in own_log.path.glob("*"):
        if file.suffix in (".index", ".timeindex", ".snapshot") or file.name == ".kafka_cleanshutdown":
            file.unlink()
    log = sorted(own_log.path.glob("*.log"))[1]
    os.utime(log, (T0, T0))
    data = bytearray(log.read_bytes())
    (length,) = struct.unpack_from(">i", data, 8)
    struct.pack_into(">i", data, 12 + length + 8, 3)  # of the second batch: no batch is so short
    log.write_bytes(data)

    with pytest.raises(CorruptRecordError, match=says) as caught:
        plan(own_log.path, onCorruption="skip", **options)

    assert (caught.value.path, caught.value.position) == (str(log), 12 + length)
    assert "orders-0" in str(caught.value)


class BrokerBeside(Disk):
    """A disk on which retention takes a log's first segment when its directory was listed for the view."""

    def __init__(self) -> None:
        super().__init__()
        self._listings_count = 0  # the first one is that which finds the partition

    def list_directory(self, path: FilePath) -> list[DirectoryEntry]:
        entries = super().list_directory(path)
        self._listings_count += 1
        first = Path(path) / f"{0:020d}.log"
        if self._listings_count == 2:
            first.rename(first.with_suffix(".log.deleted"))
        return entries


def test_what_is_deleted_while_it_is_planned_is_out_of_range(own_log: Made) -> None:
    second = int(sorted(own_log.path.glob("*.log"))[1].stem)
    asked = {"path": str(own_log.path), "startingOffsets": '{"orders": {"0": 15}}'}

    with pytest.raises(OffsetOutOfRangeError, match=f"no offset 15; it has {second} to 3000"):
        plan_read(ReadOptions.parse(asked), disk=BrokerBeside())


def test_planning_changes_nothing(made_log: Made) -> None:
    before = {file: file.stat().st_mtime_ns for file in made_log.path.parent.rglob("*")}

    rows_of(plan(made_log.path, isolation="read_committed"))

    assert {file: file.stat().st_mtime_ns for file in made_log.path.parent.rglob("*")} == before
