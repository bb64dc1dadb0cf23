"""Swapping segments: names, snapshots and readers."""

from __future__ import annotations

from collections.abc import Sequence

from stratalog.log.cleaning import OffsetMap, clean_log
from stratalog.log.deletion import delete_segments
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reader import SegmentReader
from tests.log.cleaning.dirty import NOW, Dirty


def test_old_files_wait_for_their_deletion_and_new_ones_have_their_names() -> None:
    dirty = three_segments()

    dirty.clean()

    assert dirty.machine.files(".log") == [f"{base:020d}.log" for base in (0, 3)]
    assert dirty.machine.files(".log.deleted") == [f"{base:020d}.log.deleted" for base in (0, 1, 2)]
    dirty.wait(60_000)
    dirty.machine.scheduler.run_due()
    assert dirty.machine.files(".deleted") == []


def test_snapshots_of_bases_that_are_gone_go_too() -> None:
    dirty = three_segments()

    dirty.clean()

    assert dirty.machine.files(".snapshot") == [f"{3:020d}.snapshot"]


def test_a_reader_of_an_old_segment_goes_on_until_it_is_deleted() -> None:
    dirty = three_segments()
    old = list(dirty.log.segments)[1]
    before = old.reader.read_bytes(0, 1000)

    dirty.clean()

    assert old.reader.read_bytes(0, 1000) == before != b""


def test_a_segment_that_retention_took_meanwhile_is_left_to_it() -> None:
    """KAFKA-7322"""
    dirty = three_segments()
    (first, *_) = dirty.log.segments

    def replace(new: LogSegment, old: Sequence[SegmentReader]) -> None:
        dirty.log.segments.remove([first])
        delete_segments(
            dirty.machine.disk, dirty.machine.scheduler, None, [first], delay_ms=0, reason="it is too old"
        )
        dirty.replace(new, old)

    clean_log(dirty.bounds(), OffsetMap(2400), now_ms=NOW, replace_segments=replace)

    assert dirty.offsets == [1, 2]
    assert dirty.machine.files(".log.deleted") == [f"{base:020d}.log.deleted" for base in (0, 1, 2)]


def three_segments() -> Dirty:
    dirty = Dirty()
    for key, value in ((b"a", b"1"), (b"b", b"1"), (b"a", b"2")):
        dirty.put((key, value))
        dirty.roll()
    dirty.machine.scheduler.run_due()
    return dirty
