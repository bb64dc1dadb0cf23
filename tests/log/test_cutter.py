"""Records that are removed: what is left, and in which order files and marks change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stratalog.errors import LogClosedError, OffsetOutOfRangeError, UsageError
from stratalog.files.names import TopicPartition
from stratalog.log.checkpoint_file import PartitionOffsets
from stratalog.log.cutter import Cutter
from stratalog.log.kept_marks import KeptMarks
from stratalog.log.log import Log
from stratalog.records.control import ControlType
from tests.log.model import ORDERS, Machine, append_marker, batch, produced, read_all
from tests.log.segmented import SET_SIZE, filled
from tests.log.watched import WatchedDisk, watched


class Kept:
    """A checkpoint in memory; its writes are recorded together with those of the disk."""

    def __init__(self, disk: WatchedDisk, name: str, offset: int) -> None:
        self.offsets: dict[TopicPartition, int] = {ORDERS: offset}
        self._disk, self._name = disk, name

    def update(self, change: Callable[[PartitionOffsets], PartitionOffsets]) -> bool:
        self.offsets = {**change(self.offsets)}
        self._disk.done.append(f"write {self._name} {self.offsets.get(ORDERS)}/")
        return True

    def check_outside(self) -> None:
        pass


def three_segments() -> tuple[WatchedDisk, Log, Cutter]:
    """Segments 0, 1 and 2 with a record each, all of it flushed."""
    disk, machine = watched(retention_bytes=1)
    log = machine.open()
    for number in range(3):
        if number:
            log.roll()
        log.append_as_leader(batch(b"a"), leader_epoch=0)
    log.flush()
    kept = KeptMarks(ORDERS, starts=Kept(disk, "start", 0), ends=[Kept(disk, "point", 3)])
    cutter = Cutter(log._parts, log._flusher, log._roller, kept)
    disk.done.clear()
    return disk, log, cutter


def test_truncation_lowers_the_marks_first_and_goes_from_the_last_segment_down() -> None:
    disk, log, cutter = three_segments()

    assert cutter.truncate_to(0)

    first, second, third = (f"{base:020d}.log" for base in range(3))
    assert disk.of_logs() == [
        "write point 0/",
        f"rename {third} to {third}.deleted",
        "sync orders-0/",
        f"rename {second} to {second}.deleted",
        "sync orders-0/",
        f"sync {first}",
        "sync orders-0/",
        "write start None/",
        "write point 0/",
    ]
    assert (log.log_end_offset, log.recovery_point, cutter.cuts_count) == (0, 0, 1)


def test_truncation_at_the_end_changes_nothing() -> None:
    disk, log, cutter = three_segments()

    assert not cutter.truncate_to(3)
    assert (disk.of_logs(), log.recovery_point, cutter.cuts_count) == ([], 3, 0)


def test_retention_writes_the_start_down_before_it_renames_a_file() -> None:
    disk, log, cutter = three_segments()

    gone = cutter.delete_old_segments()

    first, second = (f"{base:020d}.log" for base in range(2))
    assert len(gone) == 2
    assert disk.of_logs() == [
        "write start 2/",
        f"rename {first} to {first}.deleted",
        f"rename {second} to {second}.deleted",
        "sync orders-0/",
    ]
    assert (log.log_start_offset, log.recovery_point, cutter.cuts_count) == (2, 3, 1)


def test_the_start_is_kept_until_a_name_on_the_device_says_it() -> None:
    _, _, cutter = three_segments()

    cutter.raise_start(2)
    before = cutter.start_to_keep
    cutter.delete_old_segments()

    assert (before, cutter.start_to_keep) == (2, None)


def test_the_start_does_not_lift_the_recovery_point() -> None:
    _, log, cutter = three_segments()
    log._flusher.lower(0)

    cutter.raise_start(2)

    assert (log.log_start_offset, log.recovery_point) == (2, 0)


def test_the_start_does_not_pass_the_high_watermark() -> None:
    _, log, cutter = three_segments()

    with pytest.raises(OffsetOutOfRangeError):
        cutter.raise_start(4)
    assert log.log_start_offset == 0


def test_an_emptied_log_says_where_it_goes_on_before_it_has_a_segment_again() -> None:
    disk, log, cutter = three_segments()

    cutter.truncate_fully_and_start_at(7)

    steps = disk.of_logs()
    assert steps.index("write start 7/") < steps.index("create 00000000000000000007.log")
    assert (log.log_start_offset, log.log_end_offset, log.segments.base_offsets) == (7, 7, (7,))


def test_a_log_whose_first_name_said_its_start_stores_it_before_it_loses_that_name() -> None:
    """Otherwise a crash without any segment would let it begin at 0, and give offsets again."""
    disk, _, cutter = three_segments()
    cutter.delete_old_segments()
    disk.done.clear()

    cutter.truncate_to(1)

    third = f"{2:020d}.log"
    steps = disk.of_logs()
    assert steps.index("write start 2/") < steps.index(f"rename {third} to {third}.deleted")
    assert steps.index("write start 1/") < steps.index(f"create {1:020d}.log")


@pytest.mark.parametrize("offset", [10, 11, 50])
def test_truncation_at_the_end_or_behind_changes_nothing(machine: Machine, offset: int) -> None:
    log = filled(machine)

    assert not log.truncate_to(offset)
    assert (log.log_end_offset, log.size) == (10, 10 * SET_SIZE)


@pytest.mark.parametrize("offset", [9, 5, 3, 0])
def test_truncation_removes_the_record_at_the_offset_and_all_behind(machine: Machine, offset: int) -> None:
    log = filled(machine)

    assert log.truncate_to(offset)

    assert [record.offset for record in read_all(log)] == list(range(offset))
    assert (log.log_end_offset, log.size) == (offset, offset * SET_SIZE)
    assert log.append_as_leader(batch(b"next"), leader_epoch=9).first_offset == offset


def test_truncation_into_a_batch_removes_all_of_it() -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a", b"b", b"c"), leader_epoch=0)

    log.truncate_to(1)

    assert (log.log_end_offset, log.size) == (1, 0)


def test_truncation_below_the_first_segment_begins_anew(machine: Machine) -> None:
    log = filled(machine)
    log.truncate_fully_and_start_at(20)

    assert log.truncate_to(7)

    assert (log.log_start_offset, log.log_end_offset, log.size) == (7, 7, 0)


def test_truncation_to_a_negative_offset_is_refused(machine: Machine) -> None:
    with pytest.raises(UsageError, match="cannot be negative"):
        filled(machine).truncate_to(-1)


def test_full_truncation_leaves_one_empty_segment_at_the_new_start(machine: Machine) -> None:
    log = filled(machine)

    log.truncate_fully_and_start_at(7)

    assert log.segments.base_offsets == (7,)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.size) == (7, 7, 7, 0)
    assert log.epochs.entries == ()
    assert machine.files(".snapshot") == []


def test_a_new_start_below_the_new_end_can_be_given(machine: Machine) -> None:
    log = filled(machine)

    log.truncate_fully_and_start_at(7, log_start_offset=3)

    assert (log.log_start_offset, log.log_end_offset) == (3, 7)


def test_indexes_of_a_segment_that_is_active_again_have_their_full_size(machine: Machine) -> None:
    log = filled(machine)
    first = f"{machine.directory}/{0:020d}"
    assert (machine.disk.size(f"{first}.index"), machine.disk.size(f"{first}.timeindex")) == (4 * 8, 4 * 12)

    log.truncate_to(3)

    assert (machine.disk.size(f"{first}.index"), machine.disk.size(f"{first}.timeindex")) == (1000, 996)
    # Kafka's count restarts: the first batch after a truncation has no entry.
    assert log.segments.active.reader.offset_index.entry_count == 2


def test_epochs_that_began_behind_a_truncation_go(machine: Machine) -> None:
    log = filled(machine)
    assert [tuple(entry) for entry in log.epochs.entries] == [(0, 0), (1, 4), (2, 8)]

    log.truncate_to(8)
    assert [tuple(entry) for entry in log.epochs.entries] == [(0, 0), (1, 4)]
    log.truncate_to(2)
    assert [tuple(entry) for entry in log.epochs.entries] == [(0, 0)]


def test_truncation_to_the_end_drops_an_epoch_that_never_wrote(machine: Machine) -> None:
    log = filled(machine)
    log.assign_epoch_start_offset(7, 10)

    log.truncate_to(10)

    assert log.epochs.latest_epoch == 2


def test_truncation_forgets_transactions_that_began_behind_it() -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    log.append_as_leader(produced(1, 0, b"t", transactional=True), leader_epoch=0)
    log = machine.reopen(log)  # only a snapshot has the transaction, without a place
    assert log.last_stable_offset == 1

    log.truncate_to(1)
    log.append_as_leader(batch(b"b"), leader_epoch=0)

    assert log.last_stable_offset == 2


def test_full_truncation_forgets_open_transactions() -> None:
    log = Machine().open()
    log.append_as_leader(produced(1, 0, b"t", transactional=True), leader_epoch=0)

    log.truncate_fully_and_start_at(0)

    assert log.producers.is_empty
    assert (log.last_stable_offset, log.log_end_offset) == (0, 0)


def test_a_truncated_marker_leaves_its_transaction_open() -> None:
    log = Machine().open()
    log.append_as_leader(produced(1, 0, b"t", transactional=True), leader_epoch=0)
    append_marker(log, 1, ControlType.COMMIT)
    assert log.last_stable_offset == 2

    log.truncate_to(1)

    assert log.last_stable_offset == 0


def test_a_closed_log_is_neither_rolled_nor_truncated(machine: Machine) -> None:
    log = filled(machine)
    log.close()

    for change in (log.roll, lambda: log.truncate_to(1), lambda: log.truncate_fully_and_start_at(1)):
        with pytest.raises(LogClosedError):
            change()
