"""The marks of a log: start, last stable offset, high watermark, end, and how reads keep to them."""

from __future__ import annotations

import pytest

from stratalog.errors import OffsetOutOfRangeError, PolicyViolationError, UsageError
from stratalog.log.log import Log
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.reading import Isolation
from stratalog.records.control import ControlType
from tests.log.model import Machine, append_marker, batch, produced, read_all


def offsets(log: Log, isolation: Isolation, start: int = 0) -> list[int]:
    return [record.offset for record in read_all(log, start, isolation)]


def append(log: Log, count: int) -> None:
    for _ in range(count):
        log.append_as_leader(batch(b"x"), leader_epoch=0)


@pytest.fixture
def log() -> Log:
    """A replica's log: its high watermark is told to it."""
    return Machine(internal_segment_bytes=1000).open(embedded=False)


def test_appending_does_not_move_the_high_watermark(log: Log) -> None:
    append(log, 3)

    assert (log.high_watermark, log.log_end_offset) == (0, 3)


def test_the_high_watermark_stays_within_the_log(log: Log) -> None:
    append(log, 3)

    assert log.update_high_watermark(5) == 3
    assert log.update_high_watermark(1) == 1
    log.delete_records(1)
    assert log.update_high_watermark(0) == 1


def test_the_high_watermark_only_moves_forward_by_increment(log: Log) -> None:
    append(log, 3)

    assert log.increment_high_watermark(2)
    assert not log.increment_high_watermark(1)
    assert not log.increment_high_watermark(2)
    assert log.high_watermark == 2


def test_a_high_watermark_past_the_end_is_refused(log: Log) -> None:
    append(log, 3)

    with pytest.raises(UsageError, match="ends at 3"):
        log.increment_high_watermark(4)
    with pytest.raises(UsageError, match="not negative"):
        log.update_high_watermark(-1)


def test_truncation_takes_the_high_watermark_with_it(log: Log) -> None:
    append(log, 5)
    log.update_high_watermark(4)

    log.truncate_to(3)
    assert log.high_watermark == 3
    log.truncate_fully_and_start_at(2)
    assert log.high_watermark == 2


def test_a_read_up_to_the_log_end_gets_everything(log: Log) -> None:
    append(log, 4)
    log.update_high_watermark(1)

    assert offsets(log, Isolation.LOG_END) == [0, 1, 2, 3]
    assert log.read(4, 100, isolation=Isolation.LOG_END).records == b""


@pytest.mark.parametrize("mark", range(5))
def test_a_read_ends_at_the_high_watermark(log: Log, mark: int) -> None:
    append(log, 4)
    log.update_high_watermark(mark)

    assert offsets(log, Isolation.HIGH_WATERMARK) == list(range(mark))
    assert log.read(4, 100, isolation=Isolation.HIGH_WATERMARK).records == b""


def test_a_high_watermark_at_the_end_follows_into_a_new_segment(log: Log) -> None:
    append(log, 2)
    log.update_high_watermark(2)
    log.roll()
    append(log, 1)

    assert offsets(log, Isolation.HIGH_WATERMARK) == [0, 1]
    log.update_high_watermark(3)
    assert offsets(log, Isolation.HIGH_WATERMARK) == [0, 1, 2]


def test_a_high_watermark_inside_a_batch_moves_to_its_beginning(log: Log) -> None:
    append(log, 5)
    log.append_as_leader(batch(b"5", b"6"), leader_epoch=0)
    log.update_high_watermark(6)

    log.offset_snapshot()

    assert log.high_watermark == 5


def test_a_high_watermark_in_a_gap_moves_to_the_next_batch(log: Log) -> None:
    append(log, 2)
    log.append_as_follower(batch(b"x", b"y", base_offset=5), leader_epoch=0)
    log.update_high_watermark(3)

    log.offset_snapshot()

    assert log.high_watermark == 5


def test_a_log_without_replicas_has_no_high_watermark_but_its_end() -> None:
    log = Machine().open(embedded=True)
    append(log, 3)

    assert log.high_watermark == 3
    log.truncate_to(1)
    assert log.high_watermark == 1


def test_the_snapshot_of_the_marks_has_their_places(log: Log) -> None:
    append(log, 5)
    log.append_as_leader(produced(1, 0, b"t", transactional=True), leader_epoch=0)
    append(log, 2)
    log.update_high_watermark(7)

    snapshot = log.offset_snapshot()

    assert snapshot.log_start_offset == 0
    assert snapshot.last_stable_offset == OffsetMetadata(5, 0, 5 * len(batch(b"x")))
    assert snapshot.high_watermark.offset == 7
    assert snapshot.high_watermark.is_resolved
    assert snapshot.log_end_offset == OffsetMetadata(8, 0, log.size)


def test_records_are_deleted_up_to_an_offset_below_the_high_watermark(log: Log) -> None:
    append(log, 5)
    log.update_high_watermark(4)

    assert log.delete_records(2) == 2
    assert log.delete_records(1) == 2
    assert log.delete_records(-1) == 4
    assert offsets(log, Isolation.LOG_END, 4) == [4]


def test_the_start_does_not_pass_the_high_watermark(log: Log) -> None:
    append(log, 5)
    log.update_high_watermark(3)

    with pytest.raises(OffsetOutOfRangeError) as refused:
        log.increment_log_start_offset(4)

    assert refused.value.valid == (0, 3)
    assert log.log_start_offset == 0


def test_a_topic_that_is_only_compacted_deletes_no_records_by_offset() -> None:
    log = Machine(cleanup_policy="compact").open()

    with pytest.raises(PolicyViolationError):
        log.delete_records(0)


def test_epochs_begin_at_the_new_start(log: Log) -> None:
    for epoch in (0, 1, 2):
        log.append_as_leader(batch(b"x", b"y"), leader_epoch=epoch)
    log.update_high_watermark(6)

    log.delete_records(3)

    assert [tuple(entry) for entry in log.epochs.entries] == [(1, 3), (2, 4)]


@pytest.mark.parametrize(("offset", "fine"), [(0, False), (1, True), (3, True), (4, False)])
def test_reads_before_the_start_and_past_the_end_are_refused(log: Log, offset: int, fine: bool) -> None:
    append(log, 3)
    log.update_high_watermark(3)
    log.delete_records(1)

    if fine:
        log.read(offset, 100)
    else:
        with pytest.raises(OffsetOutOfRangeError) as refused:
            log.read(offset, 100)
        assert refused.value.valid == (1, 3)


def test_the_last_stable_offset_is_lifted_to_the_start(log: Log) -> None:
    log.append_as_leader(produced(1, 0, b"a", b"b", transactional=True), leader_epoch=0)
    append(log, 3)
    log.update_high_watermark(5)
    assert log.last_stable_offset == 0

    log.delete_records(3)

    assert log.last_stable_offset == 3
    append_marker(log, 1, ControlType.ABORT)
    log.update_high_watermark(6)
    assert log.last_stable_offset == 6


def test_a_mark_falls_behind_a_start_that_lies_inside_its_batch(log: Log) -> None:
    log.append_as_leader(batch(b"0"), leader_epoch=0)
    log.append_as_leader(batch(b"1", b"2"), leader_epoch=0)
    log.update_high_watermark(3)
    log.delete_records(2)

    log.update_high_watermark(2)
    log.offset_snapshot()

    # As Kafka's; nothing can be read up to it.
    assert (log.log_start_offset, log.high_watermark) == (2, 1)
    assert log.read(2, 100, isolation=Isolation.HIGH_WATERMARK).records == b""
