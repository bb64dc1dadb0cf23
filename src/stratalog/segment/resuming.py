"""Finds where a segment continues after an unreadable batch, for readers that skip damage.

If the checksum of the unreadable batch is correct, so is its length, and the next batch follows it. If not,
the length may be damaged: the search for the next batch looks at every byte, as in salvaging. The batch must
have a correct checksum, and offsets after those that were read. The index limits the search. Messages of the
old formats are not found like this: their lengths, or the index, are trusted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stratalog.buffers import aligned_buffer
from stratalog.errors import CorruptIndexError, CorruptRecordError
from stratalog.limits import INT64_MIN
from stratalog.records.batch import LOG_OVERHEAD
from stratalog.records.kernels import resync
from stratalog.records.kernels.index import OFFSET_AT_LEAST
from stratalog.records.reader import BatchRow
from stratalog.records.walk import new_table, walk_batches
from stratalog.segment.headers import ReadInto, find_batch
from stratalog.segment.offset_index import OffsetEntry
from stratalog.segment.segment_reader import SegmentReader

_CHUNK_SIZE = 1 << 20
_NO_EPOCH = -1
# No offset of a segment is further from its base, because its indexes could not store it.
MOST_OFFSETS = 2**31


def end_of_batch(data: NDArray[np.uint8], at: int) -> int | None:
    """The end of the batch that starts at a byte of a buffer; None if its length cannot be right."""
    walk = walk_batches(data, start=at, max_size=1)
    if not len(walk.headers):
        return None
    first = walk.headers[0]
    return walk.next_position if first["valid"] or first["magic"] < 2 else None


def indexed_batch(segment: SegmentReader, entry: OffsetEntry) -> BatchRow | None:
    """The batch that an index entry points to; None if the entry cannot belong to that batch.

    Since 3.9.1 and 4.0.1 an entry is for one batch, and has the last offset of that batch. In older releases
    an entry was for all batches of an append, and a follower or the cleaner appends many at once. Such an
    entry points to the first of these batches, and has the last offset of the last batch (before 2.0, the
    first offset). Such an offset proves less, so the checksum of the batch must be correct as well.
    """
    batch = batch_at(segment.read_into, entry.position, segment.size, segment.log_path)
    if batch is None or batch.last_offset == entry.offset:
        return batch
    if not segment.base_offset <= batch.base_offset <= entry.offset:
        return None
    walk = walk_batches(segment.read_bytes(batch.position, batch.size), table=new_table(1))
    return batch if len(walk.headers) and walk.headers[0]["valid"] else None


def batch_at(read_into: ReadInto, position: int, end: int, path: str) -> BatchRow | None:
    """The header of the batch at a byte; None if there cannot be one."""
    try:
        return find_batch(read_into, position, end, OFFSET_AT_LEAST, INT64_MIN, path=path)
    except CorruptRecordError:
        return None


def next_batch(segment: SegmentReader, position: int, end: int, *, last_offset: int) -> int:
    """The start of the first batch after a byte; `end` if there is none before `end`.

    `last_offset` is the last offset that was read; if none was, any offset below the segment's base.
    """
    indexed = _next_indexed(segment, position + 1)
    stop = end if indexed is None else min(indexed.position, end)
    below = segment.base_offset + MOST_OFFSETS if indexed is None else indexed.base_offset
    above = max(last_offset, segment.base_offset - 1)
    found = search_batch(segment.read_into, position + 1, stop, above=above, below=below)
    return stop if found is None else found


def _next_indexed(segment: SegmentReader, position: int) -> BatchRow | None:
    """The first indexed batch at or after a byte.

    The damage may be larger than the distance between two entries: entries that do not point at a batch are
    skipped.
    """
    try:
        for _ in range(segment.offset_index.entry_count):
            entry = segment.offset_index.upper_bound(position)
            if entry is None or entry.position < position:
                return None
            batch = indexed_batch(segment, entry)
            if batch is not None:
                return batch
            position = entry.position + 1
    except CorruptIndexError:
        return None
    return None


def torn(path: str, position: int, end: int) -> CorruptRecordError:
    """The error if the bytes up to the end of a segment do not begin with a whole batch."""
    reason = f"the last {end - position} bytes of the segment are not a whole batch."
    return CorruptRecordError(reason, position=position, path=path)


def search_batch(read_into: ReadInto, position: int, end: int, *, above: int, below: int) -> int | None:
    """The start, in [position, end), of the first v2 batch with fitting offsets and a correct checksum."""
    last = np.array([above, _NO_EPOCH], np.int64)
    buffer = aligned_buffer(_CHUNK_SIZE)
    while end - position >= resync.HEADER_SIZE:
        wanted = min(len(buffer), end - position)
        filled = read_into(buffer[:wanted], position)
        at, outcome = resync.find_start(buffer, 0, filled, end - position, last, below)
        if outcome == resync.FOUND:
            return position + at
        if filled < wanted or (outcome == resync.NOTHING and position + filled >= end):
            return None
        position += at
        if outcome == resync.NEEDS:
            size = int.from_bytes(buffer[at + 8 : at + LOG_OVERHEAD].tobytes(), "big") + LOG_OVERHEAD
            if size > len(buffer):
                buffer = aligned_buffer(size)
    return None
