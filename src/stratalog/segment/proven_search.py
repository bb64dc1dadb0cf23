"""Finds the first record at or after a time, and the damage that may hide an earlier one.

`SegmentReader.find_offset_by_timestamp` follows the lengths of batches, as Kafka does: a damaged length looks
like the end of the segment, and a damaged time or offset leads to another record. Here the batches from the
index entry up to the record must have correct checksums and ascending offsets. If they do not, the search
begins again and continues after the damage, as a reader that skips damage does. The time index is trusted:
all records before the offset that it gives are earlier, so damage there hides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stratalog.errors import CorruptRecordError
from stratalog.records.kernels.index import OFFSET_AT_LEAST
from stratalog.records.reader import BatchRow
from stratalog.records.walk import WalkStop, explain_stop, new_table, walk_batches, wrong_crc
from stratalog.segment.headers import Part, walk_file
from stratalog.segment.offset_index import OffsetEntry
from stratalog.segment.resuming import batch_at, next_batch, torn
from stratalog.segment.search import TimestampAndOffset, find_in_batch
from stratalog.segment.segment_reader import SegmentReader

# At most this many index entries are tried, one after the other towards the start. If none points to a good
# batch, the segment is read from its start.
_MOST_STEPS = 8


class Hidden(NamedTuple):
    """Damage that may hide records from `first_offset` on; their times are unknown."""

    first_offset: int
    error: CorruptRecordError


class TimeSearch(NamedTuple):
    """The first readable record at or after a time, and the first damage that may hide an earlier one."""

    record: TimestampAndOffset | None
    hidden: Hidden | None = None

    @property
    def first_offset(self) -> int | None:
        """Records before this offset are earlier than the time; None if all records of the segment are."""
        if self.hidden is not None:
            return self.hidden.first_offset
        return None if self.record is None else self.record.offset


def search_proven(segment: SegmentReader, timestamp: int, start_offset: int, end_offset: int) -> TimeSearch:
    """The first record from start_offset on that is not before the timestamp.

    All offsets of the segment are below `end_offset`.
    """
    wanted = max(segment.time_index.lookup(timestamp).offset, start_offset)
    entry = segment.offset_index.lookup(wanted)
    try:
        found = segment.find_offset_by_timestamp(timestamp, start_offset)
        if _is_proven(segment, entry, found, end_offset):
            return TimeSearch(found)
    except CorruptRecordError:
        pass  # the search below finds this damage again
    return _search_past_damage(segment, entry, timestamp, start_offset, end_offset)


def _is_proven(
    segment: SegmentReader, entry: OffsetEntry, found: TimestampAndOffset | None, end_offset: int
) -> bool:
    """Whether there is no damage from an index entry up to the batch of the record, or to the end."""
    end, last_offset = segment.size, segment.base_offset - 1
    if found is not None:
        batch = segment.find_batch(entry.position, OFFSET_AT_LEAST, found.offset)
        if batch is None:
            return False
        end = batch.position + batch.size
        after = batch_at(segment.read_into, end, segment.size, segment.log_path)
        # No checksum covers an offset. If it is too high, the next batch has a lower one.
        if after is not None and after.base_offset <= batch.last_offset:
            return False
    reached = entry.position
    for part in walk_file(segment.read_into, reached, end):
        headers = part.walk.headers
        if len(headers):
            bases, lasts = headers["base_offset"], headers["last_offset"]
            if reached == entry.position and reached and bases[0] > entry.offset:
                return False  # the index does not belong to these bytes
            ascends = bases[0] > last_offset and not (bases[1:] <= lasts[:-1]).any()
            if not (ascends and headers["valid"].all() and lasts[-1] < end_offset):
                return False
            last_offset = int(lasts[-1])
        reached = part.position + part.walk.next_position
    return reached == end


def _search_past_damage(
    segment: SegmentReader, entry: OffsetEntry, timestamp: int, start_offset: int, end_offset: int
) -> TimeSearch:
    floor = max(entry.offset if entry.position else segment.base_offset, start_offset)
    last_offset = segment.base_offset - 1
    hidden: Hidden | None = None
    met: Hidden | None = None  # damage after which no batch was found yet
    for each in _batches_past_damage(segment, _sure_start(segment, floor), end_offset):
        if isinstance(each, CorruptRecordError):
            met = met or Hidden(max(last_offset + 1, start_offset), each)
            continue
        if met is not None and each.base_offset > floor:
            hidden = hidden or met
        met, last_offset = None, each.last_offset
        if last_offset < floor or each.max_timestamp < timestamp:
            continue
        try:
            found = find_in_batch(segment.read_bytes(each.position, each.size), timestamp, start_offset)
        except CorruptRecordError as error:
            at = error.at(position=each.position, path=segment.log_path)
            hidden = hidden or Hidden(max(each.base_offset, start_offset), at)
            continue
        if found is not None:
            epoch = each.partition_leader_epoch
            return TimeSearch(TimestampAndOffset(*found, epoch if epoch >= 0 else None), hidden)
    return TimeSearch(None, hidden or met)


def _sure_start(segment: SegmentReader, offset: int) -> int:
    """Where to start reading: an indexed batch below the offset with a correct checksum, else byte 0."""
    for _ in range(_MOST_STEPS):
        entry = segment.offset_index.lookup(offset - 1)
        if not entry.position:
            return 0
        batch = batch_at(segment.read_into, entry.position, segment.size, segment.log_path)
        if batch is not None and segment.base_offset <= batch.base_offset <= entry.offset:
            headers = walk_batches(segment.read_bytes(batch.position, batch.size), table=new_table(1)).headers
            if len(headers) and headers[0]["valid"]:
                return entry.position
        offset = entry.offset
    return 0


def _batches_past_damage(
    segment: SegmentReader, position: int, end_offset: int
) -> Iterator[BatchRow | CorruptRecordError]:
    """The batches from a byte on, and an error for each piece of damage between them, in order."""
    last_offset = segment.base_offset - 1
    end = segment.size
    while position < end:
        error: CorruptRecordError | None = None
        for part in walk_file(segment.read_into, position, end):
            headers = part.walk.headers
            for row in range(len(headers)):
                batch = BatchRow._make(headers[row].item())
                position = part.position + batch.position
                if not batch.valid:
                    error = wrong_crc(part.data, headers[row]).at(position=position, path=segment.log_path)
                    break
                after = int(headers[row + 1]["base_offset"]) if row + 1 < len(headers) else None
                position += batch.size
                if _is_misplaced(batch, last_offset, after, end_offset):
                    yield CorruptRecordError(
                        f"a batch has the offsets {batch.base_offset} to {batch.last_offset}, which do not "
                        "fit between those of its neighbours. No checksum covers offsets.",
                        position=position - batch.size,
                        path=segment.log_path,
                    )
                    continue
                last_offset = batch.last_offset
                yield batch._replace(position=position - batch.size)
            if error is not None:
                break
            if part.is_last and position < end:
                error = _stopped(segment, part, position, end)
        if error is not None:
            yield error
            position = next_batch(segment, position, end, last_offset=last_offset)
        elif position < end:
            return  # the file has become shorter


def _is_misplaced(batch: BatchRow, last_offset: int, after: int | None, end_offset: int) -> bool:
    """Whether a batch's offsets cannot be right; `after` is the base offset of the next batch, if known."""
    if not last_offset < batch.base_offset <= batch.last_offset < end_offset:
        return True
    return after is not None and last_offset < after <= batch.last_offset


def _stopped(segment: SegmentReader, part: Part, position: int, end: int) -> CorruptRecordError:
    stop, at = part.walk.stop, part.walk.next_position
    if stop not in (WalkStop.BAD_LENGTH, WalkStop.BAD_MAGIC):
        return torn(segment.log_path, position, end)
    reason = explain_stop(part.data, at, min(len(part.data), at + end - position), stop)
    return CorruptRecordError(reason, position=position, path=segment.log_path)
