"""A sequence that is answered from scans, where Kafka reads the log."""

from __future__ import annotations

import pytest

from stratalog.files.simulated import SimulatedDisk
from stratalog.log.recovery.result_scans import ResultScans
from stratalog.log.recovery.sequence import SegmentState
from stratalog.segment.scan import SegmentScan, scan_segment
from tests.log.model import batch, produced

BASE = 10


def scanned(*batches: bytes) -> SegmentScan:
    return scan_segment(SimulatedDisk.of({"/0.log": b"".join(batches)}), "/0.log", BASE)


def state(scan: SegmentScan, *, is_emptied: bool = False) -> SegmentState:
    return SegmentState(BASE, scan.valid_size, is_emptied=is_emptied)


@pytest.fixture
def three() -> SegmentScan:
    """The offsets 10, 11 and 12."""
    return scanned(batch(b"a", b"b", base_offset=10), batch(b"c", base_offset=12))


def answering(scan: SegmentScan, end_offset: int | None = None) -> ResultScans:
    scans = ResultScans(end_offset)
    scans.by_base[BASE] = scan
    return scans


def test_a_segment_that_is_recovered_is_its_scan(three: SegmentScan) -> None:
    assert answering(three).whole(state(three)) is three


@pytest.mark.parametrize(("offset", "is_there"), [(0, True), (10, True), (12, True), (13, False)])
def test_a_segment_that_ends_before_an_offset_has_nothing_from_there_on(
    three: SegmentScan, offset: int, is_there: bool
) -> None:
    assert answering(three).behind(state(three), offset) is (three if is_there else None)


def test_a_segment_that_was_emptied_has_nothing_and_ends_at_its_base(three: SegmentScan) -> None:
    emptied = state(three, is_emptied=True)

    assert answering(three).behind(emptied, 0) is None
    assert answering(three, end_offset=13).next_offset(emptied) == BASE


def test_a_segment_that_was_not_scanned_has_nothing(three: SegmentScan) -> None:
    assert ResultScans(None).behind(state(three), 0) is None


def test_the_log_ends_with_its_last_batch_unless_its_end_is_known(three: SegmentScan) -> None:
    assert answering(three).next_offset(state(three)) == 13
    assert answering(three, end_offset=12).next_offset(state(three)) == 12


def test_a_producer_s_batch_is_found_though_a_stale_batch_is_the_last() -> None:
    """A broker compares first offsets too, so it finds offset 15 although the segment seems to end at 12."""
    scan = scanned(produced(1, 0, b"x", base_offset=15), batch(b"stale", base_offset=11))
    assert scan.next_offset == 12

    assert answering(scan).behind(state(scan), 15) is scan
    assert answering(scan).behind(state(scan), 16) is None
