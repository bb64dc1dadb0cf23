"""Whether the indexes of a segment name records past the end of its log.

A broker appends to the log first, and then to its indexes. After a power cut, the pages of an index may be on
the device although those of the log are not. So before recovery rebuilds an index, its last entry may be the
only trace of records that are gone. The death of a process leaves such an entry only after a truncation, or
after a recovery by Kafka that cut the segment: Kafka does not clear entries that it removes from an index.
"""

from __future__ import annotations

from typing import NamedTuple

from stratalog.errors import CorruptIndexError
from stratalog.files.reading import DiskReader
from stratalog.limits import INT64_MAX
from stratalog.segment.offset_index import OffsetIndex
from stratalog.segment.scan import ScanStop, SegmentScan
from stratalog.segment.time_index import TimeIndex


class IndexClaim(NamedTuple):
    """An index names records up to `last_offset`, but the segment ends at `end_offset`.

    `is_cut`: the bytes of these records are in the file, after the end of the scan, so they are cut off.
    """

    last_offset: int
    end_offset: int
    is_cut: bool


def find_claim(
    disk: DiskReader,
    index_path: str | None,
    time_index_path: str | None,
    scan: SegmentScan,
    *,
    base_offset: int,
    next_base: int,
    log_size: int,
) -> IndexClaim | None:
    """What the indexes claim past the end of a scan; None if nothing that can be believed.

    `scan` is that of the segment, or of its last piece. An offset that belongs to the next segment is not
    believed. The last entries are read first: only if they are past the end, all others are checked.
    """
    claims = []
    try:
        if index_path is not None:
            claims.append(_of_offset_index(disk, index_path, scan, base_offset, next_base, log_size))
    except CorruptIndexError:
        pass
    try:
        if time_index_path is not None:
            claims.append(_of_time_index(disk, time_index_path, scan, base_offset, next_base))
    except CorruptIndexError:
        pass
    # A record whose bytes are not even in the file is the worse news.
    return max(filter(None, claims), key=lambda claim: (not claim.is_cut, claim.last_offset), default=None)


def _of_offset_index(
    disk: DiskReader, path: str, scan: SegmentScan, base_offset: int, next_base: int, log_size: int
) -> IndexClaim | None:
    index = OffsetIndex(disk, path, base_offset, max_size=0, exists=True)
    try:
        last = index.last_entry
        if last.position <= 0:  # there are no entries: the first batch of a segment never gets one
            return None
        is_cut = last.position < log_size
        # If the entry points into a log without damage, its offset is wrong.
        if not scan.next_offset <= last.offset < next_base or (is_cut and scan.stop is ScanStop.END):
            return None
        index.sanity_check(INT64_MAX)
        return IndexClaim(last.offset, scan.next_offset, is_cut)
    finally:
        index.forget()


def _of_time_index(
    disk: DiskReader, path: str, scan: SegmentScan, base_offset: int, next_base: int
) -> IndexClaim | None:
    index = TimeIndex(disk, path, base_offset, max_size=0, exists=True)
    try:
        last = index.last_entry
        # Without entries, the timestamp is -1. A single slot of zeros counts as an entry, but proves nothing.
        if last <= (0, base_offset) or not scan.next_offset <= last.offset < next_base:
            return None
        index.sanity_check(last.offset)
        # It has no positions. If something is cut off, the record may be there.
        return IndexClaim(last.offset, scan.next_offset, scan.stop is not ScanStop.END)
    finally:
        index.forget()
