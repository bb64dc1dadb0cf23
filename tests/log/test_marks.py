"""The marks on their own: which mark moves with which. `test_log_marks.py` has them in a log."""

from __future__ import annotations

import pytest

from stratalog.errors import UsageError
from stratalog.limits import INT64_MAX
from stratalog.log.marks import LogMarks
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.producers.entry import ProducerStateEntry
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.segments import LogSegments
from stratalog.segment.segment import LogSegment
from tests.log.model import DIRECTORY, Machine, batch

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


def test_the_lowest_end_is_told_once() -> None:
    marks = marks_of()
    marks.cut_end(OffsetMetadata(1, 0, SIZE))
    marks.end = OffsetMetadata(3, 0, 3 * SIZE)
    marks.cut_end(OffsetMetadata(2, 0, 2 * SIZE))

    assert [marks.take_lowest_end(), marks.take_lowest_end()] == [1, INT64_MAX]


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

    with pytest.raises(UsageError, match="not negative"):
        marks.update_high_watermark(-1)
    with pytest.raises(UsageError, match="ends at 3"):
        marks.increment_high_watermark(4)
    assert offsets(marks) == (0, 0, 0, 3)
