"""From where to where a partition is read."""

from __future__ import annotations

import itertools
import os
import shutil
import struct
from pathlib import Path

import pytest

import stratalog
from stratalog import tables
from stratalog.errors import CorruptRecordError, OffsetOutOfRangeError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.entries import DirectoryEntry
from stratalog.files.entries import Path as FilePath
from stratalog.files.lock import DirectoryLock
from stratalog.jobs.reading.omissions import OmissionKind
from stratalog.jobs.reading.options import ReadOptions
from stratalog.jobs.reading.plan import plan_read
from stratalog.log.new_records import NewRecord
from tests.jobs.reading.conftest import make_log
from tests.jobs.reading.making import T0, Made, batches_of, plan, read, read_omitting
from tests.log.model import batch
from tests.manager.running import MARKER, ORDERS, Node, checkpoint, fixture_copy

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
CLEAN = FIXTURES / "kafka-4.3.1" / "clean" / "logs"


DIRECTORY_FILES = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")


@pytest.fixture
def unclean(tmp_path: Path) -> Path:
    """A log of ten batches of ten records, in a log directory that was not shut down cleanly."""
    made = make_log(tmp_path / "logs" / "orders-0", 100)
    (made.path / MARKER).unlink()
    for name in DIRECTORY_FILES:
        (tmp_path / "logs" / name).write_text("0\n1\norders 0 100\n")
    return made.path.parent


def newest(directory: Path) -> Path:
    return max(directory.glob("orders-0/*.log"))


@pytest.mark.parametrize("kept", DIRECTORY_FILES)
def test_damage_in_the_last_batch_of_an_unclean_log_is_told_below_a_checkpoint(
    unclean: Path, kept: str
) -> None:
    for name in {*DIRECTORY_FILES} - {kept}:
        (unclean / name).write_text("0\n0\n")
    data = newest(unclean).read_bytes()
    newest(unclean).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))

    with pytest.raises(CorruptRecordError, match="from offset 90 on"):
        read(unclean)
    offsets, omitted = read_omitting(unclean, onCorruption="skip")

    assert offsets == list(range(90))
    assert [(each.first_offset, each.end_offset) for each in omitted] == [(90, 100)]


def test_a_last_batch_that_is_cut_off_below_a_checkpoint_is_damage(unclean: Path) -> None:
    os.truncate(newest(unclean), newest(unclean).stat().st_size - 1)

    with pytest.raises(CorruptRecordError, match="the log reached offset 100, but"):
        read(unclean)
    offsets, omitted = read_omitting(unclean, onCorruption="skip")

    assert offsets == list(range(90))
    assert [(each.kind, each.first_offset, each.end_offset) for each in omitted] == [
        (OmissionKind.DAMAGE, 90, 100)
    ]


def test_a_log_that_only_ends_below_its_checkpoints_is_read_without_a_complaint(unclean: Path) -> None:
    """A truncation inside a batch leaves such a log. `audit` reports it: checkpoint-past-end."""
    last = list(batches_of(newest(unclean)))[-1][0]
    os.truncate(newest(unclean), newest(unclean).stat().st_size - len(last))

    assert read_omitting(unclean) == (list(range(90)), [])
    with DirectoryLock(unclean):
        assert read_omitting(unclean) == (list(range(90)), [])
    report = stratalog.audit([unclean])
    assert {finding.kind.value for finding in report.findings} >= {"checkpoint-past-end"}


def test_a_log_that_is_empty_below_its_checkpoints_is_read_as_empty(unclean: Path) -> None:
    os.truncate(newest(unclean), 0)

    assert read_omitting(unclean) == ([], [])


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_lone_log_that_was_truncated_inside_a_batch_is_read(tmp_path: Path, is_closed: bool) -> None:
    path = make_log(tmp_path / "orders-0", 100).path
    with stratalog.open_log(path) as log:
        log.truncate_to(95)
    if not is_closed:
        (path / MARKER).unlink()

    assert read_omitting(tmp_path) == (list(range(90)), [])


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_broker_s_log_that_was_truncated_inside_a_batch_is_read(tmp_path: Path, is_closed: bool) -> None:
    copy = fixture_copy("clean", tmp_path / "logs")
    *_, (_, base_offset, last_offset) = batches_of(max(copy.glob("headers-0/*.log")))
    before, _ = read_omitting(copy, subscribe="headers")
    with stratalog.open_log(copy / "headers-0") as log:
        log.truncate_to(last_offset)
    if not is_closed:
        (copy / MARKER).unlink()

    offsets, omitted = read_omitting(copy, subscribe="headers")

    assert base_offset < last_offset
    for name in DIRECTORY_FILES:
        assert checkpoint(copy, name)["headers-0"] == last_offset
    assert (offsets, omitted) == ([each for each in before if each < base_offset], [])


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_managed_log_that_was_truncated_inside_a_batch_is_read(tmp_path: Path, is_closed: bool) -> None:
    closed, killed = tmp_path / "closed", tmp_path / "killed"
    with Node(closed).running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True)
        for _ in range(10):
            log.append_as_leader(batch(*[b"value"] * 10), leader_epoch=0)
        log.flush()
        manager.truncate_to({ORDERS: 95})
        manager.checkpoint_high_watermarks()
        shutil.copytree(closed, killed)

    logs = closed if is_closed else killed

    assert (logs / MARKER).exists() == is_closed
    assert checkpoint(logs, "recovery-point-offset-checkpoint") == {"orders-0": 95}
    assert read_omitting(logs) == (list(range(90)), [])


def test_a_log_that_starts_inside_a_batch_is_read_from_there() -> None:
    rows = read(CLEAN, columns=("offset",), subscribe="trimmed")

    assert [row["offset"] for row in rows] == list(range(17, 30))


def test_offsets_that_are_not_there_are_refused_with_those_that_are() -> None:
    with pytest.raises(
        OffsetOutOfRangeError,
        match=r"trimmed-0 in .* has no offset 3; its offsets begin at 17 and end before 30\. Ask for 17 to",
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
            {"startingTimestamp": str(T0 + 1_000_000), "onCorruption": "fail"},
            "to find out which record is the first at or after that time.*set onCorruption=skip",
        ),
        (
            {"isolation": "read_committed", "onCorruption": "skip"},
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
        plan(own_log.path, **options)

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

    with pytest.raises(OffsetOutOfRangeError, match=f"no offset 15; its offsets begin at {second} and"):
        plan_read(ReadOptions.parse(asked), disk=BrokerBeside())


def single_batches(folder: Path) -> Path:
    """A log of 100 batches of one record, closed cleanly; five bytes of the eleventh are lost since."""
    with stratalog.open_log(folder / "t-0", create=True) as log:
        for number in range(100):
            log.append(b"value %d" % number * 10)
    (path,) = (folder / "t-0").glob("*.log")
    data = bytearray(path.read_bytes())
    at = sum(len(batch) for batch, _, _ in itertools.islice(batches_of(path), 10)) + 30
    del data[at : at + 5]
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_read_committed_returns_what_follows_damage(tmp_path: Path, isolation: str) -> None:
    path = single_batches(tmp_path)

    found, omitted = read_omitting(path.parent, isolation=isolation, onCorruption="skip")

    assert found == [offset for offset in range(100) if offset != 10]
    assert [(each.first_offset, each.end_offset) for each in omitted] == [(10, 11)]
    (row,) = tables.partitions(tmp_path).to_table().to_pylist()
    assert (row["endOffset"], row["stableOffset"]) == (100, 100)


def test_read_committed_without_a_snapshot_says_that_damage_hides_transactions(tmp_path: Path) -> None:
    path = single_batches(tmp_path)
    for snapshot in path.parent.glob("*.snapshot"):
        snapshot.unlink()

    with pytest.raises(
        CorruptRecordError, match=r"which transactions were aborted.*isolation=read_uncommitted"
    ):
        plan(path.parent, isolation="read_committed", onCorruption="skip")


def test_aborted_records_that_follow_damage_are_not_read_as_committed(tmp_path: Path) -> None:
    """Kafka's own log with transactions, damaged in front of them."""
    copy = Path(shutil.copytree(CLEAN, tmp_path / "logs")) / "txn-0"
    healthy, _ = read_omitting(copy, isolation="read_committed")
    everything, _ = read_omitting(copy)
    assert len(healthy) < len(everything)
    log = sorted(copy.glob("*.log"))[-1]
    data = bytearray(log.read_bytes())
    del data[30:35]  # of the first batch
    log.write_bytes(data)

    found, omitted = read_omitting(copy, isolation="read_committed", onCorruption="skip")

    assert set(found) <= set(healthy)
    assert found[-1] == healthy[-1]
    told = {offset for each in omitted for offset in range(each.first_offset, each.end_offset or 0)}
    assert set(healthy) - set(found) <= told
