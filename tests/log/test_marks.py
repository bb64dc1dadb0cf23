"""The marks: which moves with which, on their own and in a log, and how reads keep to them."""

from __future__ import annotations

import pytest

from stratalog.errors import OffsetOutOfRangeError, PolicyViolationError, UsageError
from stratalog.limits import INT64_MAX
from stratalog.log.log import Log
from stratalog.log.marks import LogMarks
from stratalog.log.offsets import Cuts, OffsetMetadata
from stratalog.log.producers.entry import ProducerStateEntry
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.reading import Isolation
from stratalog.log.segments import LogSegments
from stratalog.records.control import ControlType
from stratalog.segment.segment import LogSegment
from tests.log.model import DIRECTORY, Machine, append_marker, batch, produced, read_all

SIZE = len(batch(b"x"))


def marks_of(*, follows_end: bool = False, start: int = 0, opened_at: int | None = None) -> LogMarks:
    """Of a segment with the batches 0, 1 and 2, and perhaps of a transaction that began at an offset."""
    machine = Machine()
    log = machine.open()
    for _ in range(3):
        log.append_as_leader(batch(b"x"), leader_epoch=0)
    log.close()
    segment = LogSegment.open(machine.disk, DIRECTORY, 0, machine.config, machine.clock)
    producers = ProducerStateManager(machine.disk, DIRECTORY, clock=machine.clock)
    if opened_at is not None:
        producers.load_producer_entry(ProducerStateEntry(1, current_txn_first_offset=opened_at))
    return LogMarks(
        LogSegments([segment]),
        producers,
        start,
        OffsetMetadata(3, 0, 3 * SIZE),
        follows_end=follows_end,
    )


def offsets(marks: LogMarks) -> tuple[int, int, int, int]:
    return marks.log_start_offset, marks.last_stable.offset, marks.high_watermark.offset, marks.end.offset


def test_without_replicas_the_high_watermark_is_the_end() -> None:
    assert offsets(marks_of(follows_end=True)) == (0, 3, 3, 3)


def test_with_replicas_the_high_watermark_begins_at_the_start() -> None:
    assert offsets(marks_of(start=1)) == (1, 1, 1, 3)


@pytest.mark.parametrize(("follows_end", "high_watermark"), [(True, 4), (False, 0)])
def test_the_high_watermark_follows_the_end_where_it_is_to(follows_end: bool, high_watermark: int) -> None:
    marks = marks_of(follows_end=follows_end)

    marks.end = OffsetMetadata(4, 0, 4 * SIZE)
    marks.follow_end()

    assert offsets(marks) == (0, high_watermark, high_watermark, 4)


def test_a_cut_takes_every_mark_above_it_along() -> None:
    marks = marks_of(follows_end=True)

    marks.cut_end(OffsetMetadata(1, 0, SIZE))

    assert offsets(marks) == (0, 1, 1, 1)


def test_a_cut_leaves_a_mark_below_it() -> None:
    marks = marks_of()
    marks.update_high_watermark(1)

    marks.cut_end(OffsetMetadata(2, 0, 2 * SIZE))

    assert offsets(marks) == (0, 1, 1, 2)


def test_the_lowest_end_is_known_until_a_copy_has_followed_it() -> None:
    marks = marks_of()
    marks.cut_end(OffsetMetadata(1, 0, SIZE))
    marks.end = OffsetMetadata(3, 0, 3 * SIZE)
    marks.cut_end(OffsetMetadata(2, 0, 2 * SIZE))

    assert marks.cuts == Cuts(2, 1)
    marks.forget_cuts(marks.cuts)
    assert marks.cuts == Cuts(2, INT64_MAX)


def test_a_truncation_while_a_copy_follows_another_one_is_not_forgotten() -> None:
    marks = marks_of()
    marks.cut_end(OffsetMetadata(1, 0, SIZE))
    seen = marks.cuts
    marks.cut_end(OffsetMetadata(1, 0, SIZE))

    marks.forget_cuts(seen)

    assert marks.cuts == Cuts(2, 1)


def test_an_emptied_log_has_nothing_left_of_what_was_copied_though_its_end_is_higher() -> None:
    marks = marks_of()

    marks.cut_end(OffsetMetadata(9, 9, 0), is_emptied=True)

    assert marks.cuts == Cuts(1, 0)


def test_a_new_segment_moves_the_place_of_the_end_and_not_its_offset() -> None:
    marks = marks_of(follows_end=True)

    marks.place_end(3)

    assert marks.end == marks.high_watermark == OffsetMetadata(3, 3, 0)


def test_a_high_watermark_gets_its_place_when_somebody_asks_for_it() -> None:
    marks = marks_of()
    marks.update_high_watermark(2)
    before = marks.high_watermark

    found = marks.snapshot()

    assert (before.is_resolved, found.high_watermark) == (False, OffsetMetadata(2, 0, 2 * SIZE))


def test_the_last_stable_offset_stays_before_an_open_transaction() -> None:
    marks = marks_of(follows_end=True, opened_at=1)

    assert marks.last_stable == OffsetMetadata(1, 0, SIZE)


def test_the_last_stable_offset_does_not_pass_the_high_watermark() -> None:
    marks = marks_of(opened_at=2)
    marks.update_high_watermark(1)

    assert marks.last_stable.offset == 1


def test_the_last_stable_offset_is_not_before_the_start() -> None:
    marks = marks_of(follows_end=True, opened_at=0)

    marks.log_start_offset = 2
    marks.update_first_unstable()

    assert marks.last_stable.offset == 2


def test_a_high_watermark_outside_the_log_is_refused() -> None:
    marks = marks_of()

    with pytest.raises(UsageError, match="cannot be negative"):
        marks.update_high_watermark(-1)
    with pytest.raises(UsageError, match="ends at 3"):
        marks.increment_high_watermark(4)
    assert offsets(marks) == (0, 0, 0, 3)


def test_no_reader_sees_the_high_watermark_pass_a_transaction_that_just_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    seen: list[int] = []
    real = log.producers.on_high_watermark_updated

    def watched(offset: int) -> None:
        seen.append(log.last_stable_offset)
        real(offset)
        seen.append(log.last_stable_offset)

    monkeypatch.setattr(log.producers, "on_high_watermark_updated", watched)
    log.append_as_leader(produced(1, 0, b"open", transactional=True), leader_epoch=0)

    assert {*seen, log.last_stable_offset} == {1}


def offsets_read(log: Log, isolation: Isolation, start: int = 0) -> list[int]:
    return [record.offset for record in read_all(log, start, isolation)]


def append(log: Log, count: int) -> None:
    for _ in range(count):
        log.append_as_leader(batch(b"x"), leader_epoch=0)


@pytest.fixture
def log() -> Log:
    """A replica's log: the caller sets its high watermark."""
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
    with pytest.raises(UsageError, match="cannot be negative"):
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

    assert offsets_read(log, Isolation.LOG_END) == [0, 1, 2, 3]
    assert log.read(4, 100, isolation=Isolation.LOG_END).records == b""


@pytest.mark.parametrize("mark", range(5))
def test_a_read_ends_at_the_high_watermark(log: Log, mark: int) -> None:
    append(log, 4)
    log.update_high_watermark(mark)

    assert offsets_read(log, Isolation.HIGH_WATERMARK) == list(range(mark))
    assert log.read(4, 100, isolation=Isolation.HIGH_WATERMARK).records == b""


def test_a_high_watermark_at_the_end_follows_into_a_new_segment(log: Log) -> None:
    append(log, 2)
    log.update_high_watermark(2)
    log.roll()
    append(log, 1)

    assert offsets_read(log, Isolation.HIGH_WATERMARK) == [0, 1]
    log.update_high_watermark(3)
    assert offsets_read(log, Isolation.HIGH_WATERMARK) == [0, 1, 2]


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
    assert offsets_read(log, Isolation.LOG_END, 4) == [4]


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
