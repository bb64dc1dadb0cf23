"""Finds where a log ends, why it ends there, and how its last writer left it.

function        who uses it                             the log ends after
`last_whole`    any reader                              the last whole batch; a writer may be writing the next
`end_of`        a reader that also needs the reason     the same batch; the bytes after it say why
`valid_end`     a reader of a log that was not          the last batch with a correct checksum; what follows
                closed cleanly                          is from a crash
`valid_end`     a reader of a log that was closed       the last batch; if there is damage before it, the last
                cleanly, or that has damaged bytes      one with a correct checksum. `missing_end` is the
                below a checkpoint                      offset up to which damage hides records, as the
                                                        checkpoints say
`clean_end`     a writer                                the last whole batch; the file must end there too
`last_epoch`    `stratalog format`                      the last batch; only its leader epoch is read
`last_batch`    a listing                               the last whole batch; its whole header is read

All of these read the newest segment, usually from the last entry of its index on. If that entry is wrong, or
if there is damage, the whole segment may be read to find the end for a reader. Only `last_epoch` goes on to
older segments, if the newest has no batch. Recovery decides where a log that was not closed cleanly will end,
from the scans of all its segments (`recovery/sequence.py`). Where a broker takes a log to end is found by
`broker_end.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratalog.buffers import aligned_buffer
from stratalog.errors import CorruptIndexError, CorruptRecordError, CorruptSnapshotError, NeedsRecoveryError
from stratalog.files.reading import DiskReader
from stratalog.limits import INT64_MAX
from stratalog.log.offsets import OffsetMetadata
from stratalog.records.batch import NO_PARTITION_LEADER_EPOCH
from stratalog.records.kernels.index import LAST
from stratalog.records.kernels.memory import byte_array
from stratalog.records.kernels.walk import BatchTable
from stratalog.records.reader import BatchRow
from stratalog.records.walk import WalkStop, explain_stop, walk_batches
from stratalog.segment.headers import ReadInto, walk_file
from stratalog.segment.resuming import MOST_OFFSETS, next_batch
from stratalog.segment.sanity import sanity_check
from stratalog.segment.segment_reader import SegmentReader

logger = logging.getLogger(__name__)

_LENGTH_AT = 8
_EXPLAINED_SIZE = 1 << 16  # how much is read to explain why bytes are not a batch
_ZEROS_SIZE = 1 << 20  # read at once to check for zeros


class Left(NamedTuple):
    """How its last writer left a log.

    `was_closed`: a clean-shutdown file covers it. Everything below `recovery_point` is on the device, even if
    the log was not closed; everything below `high_watermark` was written, and consumers may have read it.
    Both are from checkpoints. After a truncation inside a batch, both are in the middle of that batch, and
    the log ends before it. `is_in_use`: the log may have been truncated, or its topic deleted and created
    again, since the checkpoints were written.
    """

    was_closed: bool = False
    recovery_point: int = 0
    high_watermark: int = 0
    is_in_use: bool = False

    @property
    def known_end(self) -> int:
        """The offset that the log had reached when its checkpoints were written."""
        return max(self.recovery_point, self.high_watermark)


NOT_CLOSED = Left()


class EndReason(Enum):
    """Why a log ends where it does: what follows its end in the file."""

    END_OF_FILE = "the file ends there"
    ZEROS = "only zeros follow, as in a preallocated file"
    TORN = "the next batch is cut off"
    NO_BATCH = "the bytes that follow are not a batch"
    WRONG_CHECKSUM = "the checksum of the next batch is wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The end of a log. `offset` is the next offset; its batch would be at byte `position` of the file
    `path`.

    `hidden_size` bytes follow there that are not read, because of `why`; `reason` explains that in words and
    with numbers. A log without any segment has no path. If the checkpoints show that these bytes are damaged
    records, the log had been written at least up to the offset `missing_end`.
    """

    offset: int
    position: int = 0
    path: str = ""
    why: EndReason = EndReason.END_OF_FILE
    hidden_size: int = 0
    reason: str = ""
    was_closed: bool = False
    missing_end: int | None = None

    @property
    def hides_something(self) -> bool:
        """Whether bytes follow that are not zeros: a write goes on or was cut off, or this is damage."""
        return self.why not in (EndReason.END_OF_FILE, EndReason.ZEROS)

    def without_hidden(self) -> LogEnd:
        """The same end, for a caller that knows that a writer is still writing the bytes after it."""
        return replace(self, why=EndReason.END_OF_FILE, hidden_size=0, reason="", missing_end=None)

    def __str__(self) -> str:
        if not self.hides_something:
            return f"{self.path or 'the log'} ends at byte {self.position}: {self.why.value}"
        return (
            f"{self.path}: the {self.hidden_size} bytes from byte {self.position} on are not shown: "
            f"{self.reason} Opening the log for writing cuts them off, and keeps them in quarantine."
        )


def last_whole(segment: SegmentReader, start: int | None = None) -> tuple[int, int]:
    """(next offset, position) after the last whole batch; `start` is the position of a batch before it."""
    start = last_indexed(segment) if start is None else start
    found = _walk_to_end(segment, start)
    if found is None and start:  # the log has lost the bytes that its index names
        found = _walk_to_end(segment, 0)
    return found or (segment.base_offset, 0)


def end_of(disk: DiskReader, active: SegmentReader | None, end: OffsetMetadata, left: Left) -> LogEnd:
    """The given end, after the last whole batch, with its reason. `active` None: the log has no segment."""
    if active is None:
        return LogEnd(offset=end.offset, was_closed=left.was_closed)
    path, position = active.log_path, end.position
    size = disk.size(path) - position
    if size <= 0:
        return LogEnd(offset=end.offset, position=position, path=path, was_closed=left.was_closed)
    why, reason = EndReason.ZEROS, ""
    if not only_zeros(partial(disk.read_into, path), position, position + size):
        data = disk.read_at(path, min(size, _EXPLAINED_SIZE), position)
        stop = walk_batches(data, check_crc=False).stop
        why = EndReason.NO_BATCH
        if stop not in (WalkStop.BAD_LENGTH, WalkStop.BAD_MAGIC):
            why, stop = EndReason.TORN, WalkStop.TORN_TAIL
        reason = explain_stop(byte_array(data), 0, size, stop)
    return LogEnd(
        offset=end.offset,
        position=position,
        path=path,
        why=why,
        hidden_size=size,
        reason=reason,
        was_closed=left.was_closed,
    )


def valid_end(disk: DiskReader, active: SegmentReader | None, end: OffsetMetadata, left: Left) -> LogEnd:
    """The end for a reader that does not trust bytes from a crash.

    A log that was closed cleanly has no such tail: a wrong checksum in it is damage, which the reader will
    report, and the batches after it belong to the log. The segment's size is set so that they can be read.
    The same is true of bytes below the checkpoints: the batches up to there were complete. A log that only
    ends below its checkpoints, without such bytes, need not have lost anything (see `Left`).
    """
    if active is None:
        return end_of(disk, active, end, left)
    if left.was_closed:
        return _with_missing(_past_damage(active, end_of(disk, active, end, left)), left)
    start = last_indexed(active)
    found = _last_valid(active, start) or (_last_valid(active, 0) if start else None)
    next_offset, position = found or (active.base_offset, 0)
    if next_offset < left.known_end:
        whole = end_of(disk, active, end, left)
        if _is_damaged(disk, active, OffsetMetadata(next_offset, active.base_offset, position), whole, left):
            return _with_missing(_past_damage(active, whole), left)
    if position == active.size:
        return LogEnd(offset=end.offset, position=position, path=active.log_path)
    logger.warning(
        "%s is read up to byte %d: the checksum of the next batch is wrong, as after a crash",
        active.log_path,
        position,
    )
    return LogEnd(
        offset=next_offset,
        position=position,
        path=active.log_path,
        why=EndReason.WRONG_CHECKSUM,
        hidden_size=active.size - position,
        reason=f"{EndReason.WRONG_CHECKSUM.value}.",
    )


def clean_end(active: SegmentReader) -> int:
    """The next offset of a log that will be written to; the indexes of its last segment must match it.

    NeedsRecoveryError if bytes follow the last whole batch. Kafka trusts the clean-shutdown file and appends
    after such bytes; no reader would ever get past them.
    """
    try:
        last = sanity_check(active)
        start = active.offset_index.last_entry.position
    except (CorruptIndexError, CorruptRecordError, CorruptSnapshotError) as error:
        raise NeedsRecoveryError(active.directory, str(error).rstrip(".")) from error
    end = start if last is None else last.position + last.size
    if end != active.size:
        raise NeedsRecoveryError(
            active.directory,
            f"{active.base_offset:020d}.log goes on after its last whole batch, which ends at byte {end}, "
            f"for {active.size - end} bytes",
        )
    return active.base_offset if last is None else last.last_offset + 1


def last_indexed(segment: SegmentReader) -> int:
    """The byte of the last batch that the index names; 0 if it names none."""
    try:
        return segment.offset_index.last_entry.position
    except CorruptIndexError:  # it was trimmed while it was read, or is damaged
        return 0


def last_epoch(segments: Sequence[SegmentReader]) -> int:
    """The leader epoch of the last batch of a log; -1 if it has none."""
    for segment in reversed(segments):
        last = segment.find_batch(last_indexed(segment), LAST, 0) if segment.size else None
        if last is not None:
            return last.partition_leader_epoch
    return NO_PARTITION_LEADER_EPOCH


def last_batch(segment: SegmentReader) -> BatchRow | None:
    """The last whole batch of a segment, as `last_whole` finds it; None if there is none.

    If damage or zeros follow it, the segment's size is set to its end.
    """
    start = last_indexed(segment)
    try:
        last = segment.find_batch(start, LAST, 0) if segment.size else None
    except CorruptRecordError:
        last = None
    else:
        if not segment.size or (
            last is not None and segment.base_offset <= last.last_offset < segment.base_offset + MOST_OFFSETS
        ):
            return last
    _, segment.size = last_whole(segment, start)
    if last is not None or start >= segment.size:
        start = 0
    return segment.find_batch(start, LAST, 0) if segment.size else None


def only_zeros(read_into: ReadInto, position: int, end: int) -> bool:
    """Whether a file has only zeros from one byte up to another, or to its end."""
    buffer = aligned_buffer(min(_ZEROS_SIZE, max(end - position, 1)))
    while position < end:
        filled = read_into(buffer[: min(len(buffer), end - position)], position)
        if buffer[:filled].any():
            return False
        if not filled:
            break
        position += filled
    return True


def _walk_to_end(segment: SegmentReader, start: int) -> tuple[int, int] | None:
    """(next offset, position after the last whole batch), from a batch at `start` on."""
    found = None
    try:
        for chunk in segment.batches(start):
            rows = np.flatnonzero(_is_plausible(segment, chunk.headers))
            if len(rows):
                last = chunk.headers[int(rows[-1])]
                found = (
                    int(last["last_offset"]) + 1,
                    chunk.position + int(last["position"]) + int(last["size"]),
                )
    except CorruptRecordError as error:
        logger.info("%s is read up to the first bytes that are not a batch: %s", segment.log_path, error)
    return found


def _last_valid(active: SegmentReader, start: int) -> tuple[int, int] | None:
    """(next offset, end) of the last batch after `start` whose checksum is right."""
    found = None
    for part in walk_file(active.read_into, start, active.size):
        good = np.flatnonzero(part.walk.headers["valid"] & _is_plausible(active, part.walk.headers))
        if len(good):
            last = part.walk.headers[int(good[-1])]
            found = int(last["last_offset"]) + 1, part.position + int(last["position"]) + int(last["size"])
    return found


def _is_plausible(segment: SegmentReader, headers: BatchTable) -> NDArray[np.bool_]:
    """For each batch, whether its segment can have its offsets.

    No checksum covers offsets. If bytes are lost or inserted, the index points into the middle of batches,
    and the bytes that are read there as a header may have any offsets.
    """
    bases, lasts = headers["base_offset"], headers["last_offset"]
    end = min(segment.base_offset + MOST_OFFSETS, INT64_MAX)
    fits: NDArray[np.bool_] = (bases >= segment.base_offset) & (lasts >= bases) & (lasts < end)
    return fits


def _past_damage(active: SegmentReader, end: LogEnd) -> LogEnd:
    """The end of a log that no crash has torn: batches after damage belong to it.

    The damaged batch may be whole, with wrong offsets in its header. So only batches with correct checksums
    are used.
    """
    if not end.hides_something:
        return end
    active.size = size = end.position + end.hidden_size
    position, last, next_offset = 0, 0, active.base_offset
    while position < size:
        for part in walk_file(active.read_into, position, size):
            headers = part.walk.headers
            bad = np.flatnonzero(~(headers["valid"] & _is_plausible(active, headers)))
            good = headers[: int(bad[0])] if len(bad) else headers
            if len(good):
                next_offset = max(next_offset, int(good[-1]["last_offset"]) + 1)
                last = part.position + int(good[-1]["position"]) + int(good[-1]["size"])
            if len(bad):  # its length may be wrong too: the next batch is searched for
                position = part.position + int(headers[int(bad[0])]["position"])
                break
            position = part.position + part.walk.next_position
        if position < size:
            position = next_batch(active, position, size, last_offset=next_offset - 1)
    return LogEnd(
        offset=next_offset,
        position=last,
        path=end.path,
        why=end.why if last < size else EndReason.END_OF_FILE,
        hidden_size=size - last,
        reason=end.reason if last < size else "",
        was_closed=end.was_closed,
    )


def _is_damaged(
    disk: DiskReader, active: SegmentReader, valid: OffsetMetadata, whole: LogEnd, left: Left
) -> bool:
    """Whether the bytes after the last batch with a correct checksum were a complete batch once.

    The checkpoints show that. `valid` is the end of the last batch with a correct checksum, `whole` the end
    of the last whole batch.
    Beside a running broker, a batch that is cut off may be one that is being written, and the high watermark
    may be too high (see `Left`). So for such a batch only the recovery point counts.
    """
    is_whole = valid.position < whole.position
    if not is_whole and not whole.hides_something:
        return False
    may_be_written = left.is_in_use and not is_whole and whole.why is EndReason.TORN
    known_end = left.recovery_point if may_be_written else left.known_end
    if valid.offset >= known_end:
        return False
    header = aligned_buffer(_LENGTH_AT)
    filled = disk.read_into(active.log_path, header, valid.position)
    base_offset = int.from_bytes(header[:filled].tobytes(), "big", signed=True)
    # After a truncation inside a batch, the next batch begins at the stored offset: a crash may have torn it.
    is_next = filled == _LENGTH_AT and known_end <= base_offset < active.base_offset + MOST_OFFSETS
    return not is_next


def _with_missing(end: LogEnd, left: Left) -> LogEnd:
    """The end, with what the bytes after it hide according to the checkpoints."""
    is_missing = end.hides_something and end.offset < left.known_end
    return replace(end, missing_end=left.known_end) if is_missing else end
