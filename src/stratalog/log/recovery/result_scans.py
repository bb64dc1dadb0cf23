"""Gives the recovery sequence the results of scans, where Kafka would read a log."""

from __future__ import annotations

from stratalog.log.recovery.sequence import SegmentState
from stratalog.segment.scan import SegmentScan


class ResultScans:
    """The results of a partition's scans, in the form that the sequence needs."""

    def __init__(self, end_offset: int | None) -> None:
        self.by_base: dict[int, SegmentScan] = {}
        self._end_offset = end_offset

    def whole(self, segment: SegmentState) -> SegmentScan:
        return self.by_base[segment.base_offset]

    def behind(self, segment: SegmentState, offset: int) -> SegmentScan | None:
        scan = self.by_base.get(segment.base_offset)
        if scan is None or segment.is_emptied:
            return None
        return scan if offset < scan.next_offset or _tells_from(scan, offset) else None

    def next_offset(self, segment: SegmentState) -> int:
        if segment.is_emptied:
            return segment.base_offset
        if self._end_offset is not None:
            return self._end_offset
        return self.by_base[segment.base_offset].next_offset


def _tells_from(scan: SegmentScan, offset: int) -> bool:
    """Whether a producer's batch begins at or after an offset, although the last batch is a stale one below
    it.

    A broker that searches for the offset also compares first offsets (`stale_tail.py`).
    """
    return any(event.offset >= offset for event in scan.transactions) or any(
        batch.last_offset - batch.offset_delta >= offset
        for producer in scan.producers
        for batch in producer.batches
    )
