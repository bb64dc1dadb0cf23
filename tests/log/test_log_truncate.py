"""Truncation, rolls and segments that go: what is left, in memory and in the directory."""

from __future__ import annotations

import pytest

from stratalog.errors import LogClosedError, UsageError
from stratalog.log.log import Log
from stratalog.records.control import ControlType
from tests.log.model import NOW, Machine, append_marker, batch, produced, read_all

SET_SIZE = len(batch(b"0000"))


def filled(machine: Machine, count: int = 10) -> Log:
    """Records of one size, five to a segment."""
    log = machine.open()
    for number in range(count):
        data = batch(b"%04d" % number, timestamp=NOW + 10 * number)
        log.append_as_leader(data, leader_epoch=number // 4)
    return log


@pytest.fixture
def machine() -> Machine:
    return Machine(
        internal_segment_bytes=5 * SET_SIZE,
        index_interval_bytes=1,
        file_delete_delay_ms=1000,
        segment_index_bytes=1000,
    )


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
    with pytest.raises(UsageError, match="not negative"):
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
    # Kafka's count restarts: the first batch behind a truncation has no entry.
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
    log = machine.reopen(log)  # only a snapshot tells of the transaction, which has no place
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


def test_segments_are_renamed_at_once_and_deleted_after_the_delay(machine: Machine) -> None:
    log = filled(machine)
    machine.scheduler.run_due()

    log.truncate_to(2)
    assert f"{5:020d}.log.deleted" in machine.files()
    assert f"{5:020d}.snapshot.deleted" in machine.files()
    machine.clock.sleep(999)
    machine.scheduler.run_due()
    assert len(machine.files(".deleted")) == 4
    machine.clock.sleep(1)
    machine.scheduler.run_due()

    assert machine.files(".deleted") == []


def test_the_only_copy_keeps_an_empty_segment_when_it_is_rolled(machine: Machine) -> None:
    log = machine.open()
    active = log.segments.active

    assert log.roll() is active
    assert not machine.files(".deleted")


def test_rolling_an_empty_segment_makes_it_anew(machine: Machine) -> None:
    log = machine.open(embedded=False)
    old = log.segments.active

    new = log.roll()

    assert old is not new
    assert log.segments.base_offsets == (0,)
    assert f"{0:020d}.log.deleted" in machine.files()
    machine.clock.sleep(1000)
    machine.scheduler.run_due()
    log.append_as_leader(batch(b"x"), leader_epoch=0)
    assert [record.offset for record in read_all(log)] == [0]


def test_a_segment_can_be_rolled_to_a_base_above_the_end(machine: Machine) -> None:
    log = filled(machine, 2)

    assert log.roll().base_offset == 2
    assert log.roll(5).base_offset == 5
    assert log.log_end_offset == 2


def test_a_roll_below_the_active_segment_is_refused(machine: Machine) -> None:
    log = filled(machine, 2)
    log.roll(10)

    with pytest.raises(UsageError, match="before the active"):
        log.roll()


def test_a_roll_leaves_a_trimmed_segment_with_its_last_time_entry(machine: Machine) -> None:
    log = filled(machine, 3)

    log.roll()

    segment = log.segments.first
    assert machine.disk.size(segment.reader.offset_index.path) == 2 * 8
    assert tuple(segment.reader.time_index.last_entry) == (NOW + 20, 2)
    assert not machine.disk.exists(log.segments.active.reader.offset_index.path)


def test_what_a_roll_left_is_flushed_in_the_background(machine: Machine) -> None:
    log = filled(machine, 7)
    assert log.recovery_point == 0

    assert "flush-log" in machine.scheduler.run_due()

    assert log.recovery_point == 5


def test_a_closed_log_is_neither_rolled_nor_truncated(machine: Machine) -> None:
    log = filled(machine)
    log.close()

    for change in (log.roll, lambda: log.truncate_to(1), lambda: log.truncate_fully_and_start_at(1)):
        with pytest.raises(LogClosedError):
            change()
