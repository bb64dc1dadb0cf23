"""Read-only: nothing is locked, created or changed, whoever writes at the same time."""

from __future__ import annotations

import errno
import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from stratalog import PartitionLog, open_log
from stratalog.clock import system_clock
from stratalog.config import LogConfig
from stratalog.errors import CorruptRecordError, DiskError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.entries import ExpectedFile, ReadFile
from stratalog.files.entries import Path as FilePath
from stratalog.files.lock import DirectoryLock
from stratalog.log.api.view import LogView
from stratalog.records.control import ControlType
from tests.fixtures.catalog import Partition, partitions
from tests.log.model import ORDERS, append_marker, produced
from tests.log.model import batch as batch_of

if TYPE_CHECKING:
    from stratalog.files.disk import Target

DATA = [p for p in partitions() if not p.name.startswith("__cluster_metadata")]


def snapshot(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file below, with inode and time of change."""
    return {
        str(path): (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


class ReadOnlyMount(Disk):
    """A disk on which every change fails, as on a mount that is read-only."""

    def _refuse(self, path: str, *_: object) -> NoReturn:
        raise DiskError(path, "the file system is read-only.", errno.EROFS)

    append = create = delete = make_directory = rename = replace = _refuse
    set_modified = sync = sync_directory = truncate = write_at = _refuse


def in_kafka_s_words(partition: Partition) -> list[tuple[object, ...]]:
    """Offset, timestamp, key and value of each record that is no marker, by Kafka's own classes."""
    return [
        (record["offset"], record["timestamp"], record["key"], record["value"])
        for batch in partition.batches()
        if not batch.get("isControl") and batch["valid"]
        for record in batch["records"]
    ]


def in_hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def committed(view: PartitionLog) -> list[bytes | None]:
    """The values that a reader of committed records gets, which as columns are the same."""
    found = [record.value for record in view.records(isolation="read_committed")]
    assert view.to_arrow(["value"], isolation="read_committed")["value"].to_pylist() == found
    return found


@pytest.mark.parametrize("partition", DATA, ids=str)
def test_a_broker_s_partition_reads_as_kafka_reads_it(partition: Partition) -> None:
    before = snapshot(partition.path.parent)
    kafka = in_kafka_s_words(partition)

    with open_log(partition.path, read_only=True, disk=ReadOnlyMount()) as view:
        found = [(r.offset, r.timestamp, in_hex(r.key), in_hex(r.value)) for r in view.records()]
        table = view.to_arrow(["offset", "value"])
        start = view.start_offset
        assert view.last_stable_offset <= view.end_offset

    assert found == [record for record in kafka if isinstance(record[0], int) and record[0] >= start]
    assert table["offset"].to_pylist() == [record[0] for record in found]
    assert snapshot(partition.path.parent) == before


@pytest.mark.parametrize("state", ["clean", "killed"])
def test_a_reader_of_committed_records_sees_no_aborted_one(state: str) -> None:
    (partition,) = [p for p in partitions("4.3.1", state) if p.name == "txn-0"]
    batches = list(partition.batches())
    # By the order of the batches alone: a producer's records count when its next marker says COMMIT.
    waiting: dict[int, list[int]] = {}
    expected: list[int] = []
    for batch in batches:
        offsets = [record["offset"] for record in batch["records"]]
        if batch["isControl"]:
            commits = bytes.fromhex(batch["records"][0]["key"])[3] == 1
            expected += waiting.pop(batch["producerId"], []) if commits else []
            waiting.pop(batch["producerId"], None)
        elif batch["isTransactional"]:
            waiting.setdefault(batch["producerId"], []).extend(offsets)
        else:
            expected += offsets
    first_open = min((offsets[0] for offsets in waiting.values()), default=2**63)

    with open_log(partition.path, read_only=True) as view:
        found = [record.offset for record in view.records(isolation="read_committed")]

    assert found == sorted(offset for offset in expected if offset < first_open)
    assert len(found) < sum(len(batch["records"]) for batch in batches if not batch["isControl"])


def test_an_abort_is_known_by_its_marker_before_it_is_in_the_index(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    index, hidden = directory / f"{0:020d}.txnindex", tmp_path / "hidden"
    with open_log(directory, create=True) as log:
        log.append_batch(produced(1, 0, b"committed", transactional=True))
        append_marker(log.log, 1, ControlType.COMMIT)
        log.append_batch(produced(1, 1, b"aborted", transactional=True))
        append_marker(log.log, 1, ControlType.ABORT)
        index.rename(hidden)  # the moment between the write of the marker and that of its entry
        with open_log(directory, read_only=True) as view:
            assert committed(view) == [b"committed"]
            hidden.rename(index)
            assert committed(view) == [b"committed"]


class CountingDisk(Disk):
    """Counts the bytes that are read of logs."""

    def __init__(self) -> None:
        super().__init__()
        self.read_size = 0

    def read_into(
        self, source: ReadFile | FilePath, buffer: Target, position: int, identity: ExpectedFile | None = None
    ) -> int:
        filled = super().read_into(source, buffer, position, identity)
        self.read_size += filled
        return filled


def view_of(directory: Path, disk: Disk) -> LogView:
    return LogView(
        disk=disk, clock=system_clock, directory=directory, topic_partition=ORDERS, config=LogConfig()
    )


def test_what_was_found_of_transactions_is_gone_on_with(tmp_path: Path) -> None:
    disk = CountingDisk()
    with open_log(tmp_path / "orders-0", create=True) as log:
        for number in range(200):
            log.log.append_as_leader(produced(1, number, b"x" * 5000, transactional=True), leader_epoch=0)
        view = view_of(tmp_path / "orders-0", disk)
        assert view.last_stable_offset == 0
        whole_size = disk.read_size
        append_marker(log.log, 1, ControlType.COMMIT)
        log.log.append_as_leader(produced(2, 0, b"open", transactional=True), leader_epoch=0)

        disk.read_size = 0
        view.refresh()
        assert view.last_stable_offset == 201
        view.close()

    assert whole_size > 1_000_000
    assert disk.read_size < whole_size / 5


@pytest.mark.parametrize("is_decided", [True, False])
def test_what_was_found_of_transactions_that_were_cut_off_is_forgotten(
    tmp_path: Path, is_decided: bool
) -> None:
    """The log is as long as it was, or longer, and the batch that was last is another one now."""
    with open_log(tmp_path / "orders-0", create=True) as log:
        log.append(b"plain")
        log.log.append_as_leader(produced(1, 0, b"a", transactional=True), leader_epoch=0)
        log.append(b"plain")
        view = view_of(tmp_path / "orders-0", Disk())
        assert view.last_stable_offset == 1
        log.truncate_to(1)
        log.append_many([b"other", b"other", b"other"])
        if not is_decided:
            log.log.append_as_leader(produced(2, 0, b"b", transactional=True), leader_epoch=0)

        view.refresh()
        assert view.last_stable_offset == 4
        view.close()


def test_an_entry_that_comes_after_its_marker_is_seen_although_the_log_has_not_grown(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    index, hidden = directory / f"{0:020d}.txnindex", tmp_path / "hidden"
    with open_log(directory, create=True) as log:
        log.append_batch(produced(1, 0, b"aborted", transactional=True))
        append_marker(log.log, 1, ControlType.ABORT)
        index.rename(hidden)
        with open_log(directory, read_only=True) as view:
            assert committed(view) == []
            hidden.rename(index)
            # Behind a snapshot no marker is read any more: from here on the index alone tells of the abort.
            log.log.roll()
            log.append(b"plain")
            assert committed(view) == [b"plain"]


def test_a_view_sees_what_is_appended_rolled_and_deleted(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    with (
        open_log(directory, create=True, config={"segment.bytes": 1 << 20}) as log,
        open_log(directory, read_only=True) as view,
    ):
        assert list(view.records()) == []
        for number in range(5):
            log.append(b"%d" % number + b"x" * 400_000)
            assert view.end_offset == number
            assert len(list(view.records())) == number + 1
        assert view.metrics()["NumLogSegments"] == 3
        log.truncate_to(1)
        assert [record.offset for record in view.records()] == [0]
        log.append(b"again")
        assert [record.value for record in view.records(1)] == [b"again"]


def test_a_view_finds_times_that_the_writer_has_not_indexed_yet(tmp_path: Path) -> None:
    with open_log(tmp_path / "orders-0", create=True) as log:
        for number in range(100):
            log.append(b"value" * 20, timestamp=1_700_000_000_000 + number)
        with open_log(tmp_path / "orders-0", read_only=True) as view:
            assert view.offset_for_time(1_700_000_000_099) == 99
            assert view.offset_for_time(1_700_000_000_100) is None
            assert view.offset_of_newest() == 99


def test_a_view_is_tailed_over_a_roll(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    with open_log(directory, create=True) as log, open_log(directory, read_only=True) as view:
        turns = [lambda: log.append(b"a"), lambda: log.log.roll(), lambda: log.append(b"b")]

        class Stop:
            def wait(self, timeout: float | None = None) -> bool:
                if not timeout:
                    return False
                if not turns:
                    return True
                turns.pop(0)()
                return False

        assert [record.value for record in view.tail(stop=Stop())] == [b"a", b"b"]


def test_a_view_works_beside_whoever_holds_the_lock(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    with open_log(directory, create=True) as log:
        log.append(b"a")

    with DirectoryLock(directory), open_log(directory, read_only=True) as view:
        assert len(list(view.records())) == 1


def test_nothing_can_be_changed_through_a_view(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    open_log(directory, create=True).close()
    with open_log(directory, read_only=True) as view:
        assert view.is_read_only
        for change in (
            lambda: view.append(b"a"),
            lambda: view.truncate_to(0),
            lambda: view.delete_records(0),
            view.flush,
            lambda: view.log,
        ):
            with pytest.raises(UsageError, match="read_only"):
                change()
    for options in ({"create": True}, {"topic_id": "CVmmc5E3Svq-PtfZ062cfg"}):
        with pytest.raises(UsageError, match="read_only"):
            open_log(directory, read_only=True, **options)


@pytest.mark.parametrize("cut", [1, 30, 70])
def test_a_batch_that_is_being_written_is_not_seen(tmp_path: Path, cut: int) -> None:
    directory = tmp_path / "orders-0"
    with open_log(directory, create=True) as log:
        log.append(b"a")
        log.append(b"b")
    file = directory / f"{0:020d}.log"
    os.truncate(file, file.stat().st_size - min(cut, file.stat().st_size // 2))

    with open_log(directory, read_only=True) as view:
        assert [record.value for record in view.records()] == [b"a"]


def test_the_zeros_of_a_preallocated_file_are_its_end(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    with open_log(directory, create=True, config={"preallocate": True, "segment.bytes": 1 << 20}) as log:
        log.append(b"a")
        assert (directory / f"{0:020d}.log").stat().st_size == 1 << 20
        with open_log(directory, read_only=True) as view:
            assert ([record.value for record in view.records()], view.end_offset) == ([b"a"], 1)


def test_damage_before_the_end_is_told_after_what_is_before_it(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    with open_log(directory, create=True) as log:
        for value in (b"a", b"b", b"c"):
            log.append(value)
    file = directory / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    third = len(data) // 3
    data[third + 65] ^= 1
    file.write_bytes(data)

    with open_log(directory, read_only=True) as view:
        records = view.records()
        assert next(records).value == b"a"
        with pytest.raises(CorruptRecordError, match=f"00000000000000000000.log at byte {third}: batch CRC"):
            next(records)


def test_an_empty_directory_is_an_empty_log(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    with open_log(directory, read_only=True) as view:
        assert list(view.records()) == []
        assert (view.start_offset, view.end_offset, view.offset_for_time(0)) == (0, 0, None)
    assert list(directory.iterdir()) == []


def test_a_view_follows_the_start_of_the_log(tmp_path: Path) -> None:
    with open_log(tmp_path / "orders-0", create=True) as log:
        log.append_many([b"a", b"b", b"c"])
        with open_log(tmp_path / "orders-0", read_only=True) as view:
            assert [record.value for record in view.records()] == [b"a", b"b", b"c"]

            log.delete_records(2)

            assert [record.value for record in view.records()] == [b"c"]
            assert view.start_offset == 2


def test_a_view_of_a_directory_without_segments_has_no_newest_record(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()

    with open_log(tmp_path / "orders-0", read_only=True) as view:
        assert view.offset_of_newest() is None


def test_a_reader_of_a_log_whose_offsets_go_back_comes_to_an_end(tmp_path: Path) -> None:
    """It went by the last batch of a fetch, and fetched the same one for ever."""
    log = tmp_path / "orders-0" / f"{0:020d}.log"
    log.parent.mkdir()
    log.write_bytes(batch_of(b"a", b"b", b"c") + batch_of(b"back"))
    (log.parent / f"{40:020d}.log").write_bytes(batch_of(b"behind", base_offset=40))

    with open_log(log.parent, read_only=True) as view:
        found = [record.offset for record in islice(view.records(), 20)]

    assert found == [0, 1, 2, 0, 40]


def test_a_record_at_the_largest_offset_there_is_ends_a_view(tmp_path: Path) -> None:
    last = 2**63 - 1
    log = tmp_path / "orders-0" / f"{last:020d}.log"
    log.parent.mkdir()
    log.write_bytes(batch_of(b"a", base_offset=last))

    with open_log(log.parent, read_only=True) as view:
        assert (view.end_offset, view.last_stable_offset, list(view.records())) == (last, last, [])


def test_an_offset_behind_the_largest_one_is_in_no_batch(tmp_path: Path) -> None:
    """Where a damaged batch has the largest one, recovery and readers ask for the next."""
    with open_log(tmp_path / "orders-0", create=True) as log:
        log.append(b"a")

        assert log.log.segments.active.reader.translate_offset(2**63) is None
