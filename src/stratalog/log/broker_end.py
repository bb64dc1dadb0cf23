"""Finds where a broker takes a log to end that was shut down cleanly, and where it really ends.

A broker does not check the offset index then. It looks up the last offset of the index, and searches for it
in the newest .log, from the byte that the index gives. If it finds the offset, the log ends after the last
batch of the file. If not, the newest segment counts as empty, and the log ends at its base offset: the broker
gives offsets again that are in use. The index may be damaged, or the .log may have lost the bytes that it
names.

Only headers at the end of the log are read. If the last entry leads to a batch that contains its offset, the
two ends are the same. Only if it does not, the headers of the whole segment are read to find the real end.

Kafka: LogSegment.readNextOffset, AbstractIndex.indexSlotRangeFor, FileRecords.searchForOffsetFromPosition
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

from stratalog.buffers import aligned_buffer
from stratalog.config import LogConfig
from stratalog.errors import CorruptRecordError
from stratalog.files.names import FileKind
from stratalog.files.reading import DiskReader
from stratalog.limits import INT64_MIN
from stratalog.log.log_end import last_indexed, last_whole
from stratalog.records.batch import LOG_OVERHEAD, RECORD_BATCH_OVERHEAD
from stratalog.records.kernels.index import LAST, OFFSET_AT_LEAST
from stratalog.segment.headers import find_batch
from stratalog.segment.offset_index import ENTRY_SIZE, OffsetEntry
from stratalog.segment.segment_reader import SegmentReader

_LOG = FileKind.LOG.value
_LENGTH_AT = 8
_SMALLEST_LENGTH = 14  # of a message of format 0. Kafka: LegacyRecord.RECORD_OVERHEAD_V0
_UP_TO_MAGIC = 17
_WARM_ENTRIES = 8192 // ENTRY_SIZE  # the last ones, which Kafka searches first
_ENTRY = struct.Struct(">ii")
_HEADER = struct.Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEnd:
    """The end of a log. `base_offset` is that of the newest segment; `log` and `index` are its files' names.

    `offset` is where the log ends for a broker, and `real_offset` where it ends; None: not known. `entry` is
    the last entry of the index. `damage` stops a broker while it searches for the end. It is in the log, or
    `is_index_wrong`: the log is whole, and the index leads to bytes that are not a batch.
    """

    base_offset: int
    log: str
    index: str
    offset: int | None = None
    real_offset: int | None = None
    entry: OffsetEntry
    damage: CorruptRecordError | None = None
    is_index_wrong: bool = False


def broker_end(disk: DiskReader, directory: str, log_start_offset: int = 0) -> BrokerEnd | None:
    """The end of a partition's log after a clean shutdown; None if there is no .log.

    If the newest offset index is missing, a broker recovers the segment, and cuts off what is damaged. The
    real end is then looked for only if the log may end before `log_start_offset`.
    """
    names = disk.list_sizes(directory, _LOG)
    bases = [name[:20] for name in names if name[20:] == _LOG and name[:20].isdecimal()]
    if not bases:
        return None
    base, index = int(max(bases)), f"{max(bases)}{FileKind.OFFSET_INDEX.value}"
    log, has = f"{max(bases)}{_LOG}", (index in names, None, None)
    active = SegmentReader(disk, directory, base, LogConfig(), size=names[log], has=has)
    found = BrokerEnd(base_offset=base, log=log, index=index, entry=OffsetEntry(base, 0))
    try:
        if index in names:
            return _ends(disk, active, found)
        is_needed = log_start_offset > base
        return replace(found, real_offset=last_whole(active, 0)[0]) if is_needed else found
    finally:
        active.forget()


def _ends(disk: DiskReader, active: SegmentReader, found: BrokerEnd) -> BrokerEnd:
    entry, position = _look_up(disk, active.path_of(FileKind.OFFSET_INDEX), active.base_offset)
    found = replace(found, entry=entry)
    if not active.size:
        return replace(found, offset=active.base_offset, real_offset=active.base_offset)
    is_from_start = position == 0 and entry.offset == active.base_offset  # nothing can go wrong
    if is_from_start:
        position = last_indexed(active)  # of a preallocated index, whose last slots are zeros
    if is_from_start or _begins_a_batch(active, position, entry.offset):
        try:
            last = find_batch(active.read_into, position, active.size, LAST, 0, path=active.log_path)
        except CorruptRecordError as error:
            if _has_impossible_length(active, error):
                return replace(found, real_offset=last_whole(active)[0], damage=error)
            end = _search(disk, active, entry.offset, position)
            return replace(found, offset=end, real_offset=end)
        end = active.base_offset if last is None else last.last_offset + 1
        if is_from_start or end > entry.offset:
            return replace(found, offset=end, real_offset=end)
    real_offset, real_position = last_whole(active, 0)
    try:
        offset = _search(disk, active, entry.offset, position)
    except CorruptRecordError as error:
        is_index_wrong = real_position == active.size
        return replace(found, real_offset=real_offset, damage=error, is_index_wrong=is_index_wrong)
    return replace(found, offset=offset, real_offset=real_offset)


def _look_up(disk: DiskReader, path: str, base_offset: int) -> tuple[OffsetEntry, int]:
    """The last entry of an index, and the byte at which a broker begins to search for its offset.

    Every slot counts as an entry, even zeros, and so do the offsets of a damaged index, which do not ascend.
    """
    count = disk.size(path) // ENTRY_SIZE
    warm = max(0, count - 1 - _WARM_ENTRIES)
    data = disk.read_at(path, (count - warm) * ENTRY_SIZE, warm * ENTRY_SIZE)
    count = warm + len(data) // ENTRY_SIZE if data else 0  # it may have been cut meanwhile
    if not count:
        return OffsetEntry(base_offset, 0), 0

    def entry(slot: int) -> OffsetEntry:
        at, part = (slot - warm) * ENTRY_SIZE, data
        if at < 0:
            at, part = 0, disk.read_at(path, ENTRY_SIZE, slot * ENTRY_SIZE)
        offset, position = _ENTRY.unpack_from(part, at)
        return OffsetEntry(base_offset + offset, position)

    last = entry(count - 1)
    slot = _slot_of(entry, count, warm, last.offset)
    return last, 0 if slot is None else max(0, entry(slot).position)


def _slot_of(entry: Callable[[int], OffsetEntry], count: int, warm: int, offset: int) -> int | None:
    """The slot that Kafka's bisection finds for an offset; None if the first entry is above it."""
    if entry(warm).offset < offset:
        low, high = warm, count - 1
    elif entry(0).offset > offset:
        return None
    else:
        low, high = 0, warm
    while low < high:
        middle = (low + high + 1) // 2
        found = entry(middle).offset
        if found == offset:
            return middle
        if found > offset:
            high = middle - 1
        else:
            low = middle
    return low


def _begins_a_batch(active: SegmentReader, position: int, offset: int) -> bool:
    """Whether a batch with an offset up to this one begins there. Random bytes do not look like that."""
    try:
        first = active.find_batch(position, OFFSET_AT_LEAST, INT64_MIN) if position < active.size else None
    except CorruptRecordError:
        return False
    return first is not None and active.base_offset <= first.base_offset <= min(offset, first.last_offset)


def _search(disk: DiskReader, active: SegmentReader, offset: int, position: int) -> int:
    """Where the log ends for a broker that searches for an offset from a byte on, whatever is there.

    CorruptRecordError for a length that stops it.
    """
    end, is_found = active.base_offset, False
    while position < active.size - _UP_TO_MAGIC:
        data = disk.read_at(active.log_path, RECORD_BATCH_OVERHEAD, position)
        base, length, magic, delta = _HEADER.unpack(data.ljust(RECORD_BATCH_OVERHEAD, b"\0")[: _HEADER.size])
        if length < _SMALLEST_LENGTH:
            raise CorruptRecordError(
                f"its length is {length}, which no batch has.", position=position, path=active.log_path
            )
        if position + LOG_OVERHEAD + length > active.size:
            break
        is_found = is_found or base >= offset
        end = (base + delta if magic >= 2 else base) + 1
        position += LOG_OVERHEAD + length
    return end if is_found or end > offset else active.base_offset


def _has_impossible_length(active: SegmentReader, error: CorruptRecordError) -> bool:
    """Whether the damage stops a broker: a half batch, a wrong checksum or an unknown magic does not."""
    header = aligned_buffer(LOG_OVERHEAD)
    active.read_into(header, error.position)
    length = int.from_bytes(header[_LENGTH_AT:].tobytes(), "big", signed=True)
    return length < _SMALLEST_LENGTH
