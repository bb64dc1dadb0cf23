"""Reads the batches of a .log file, whole and in order, or hops over their headers to the one wanted.

Both take the file as a function that fills a buffer from a position, and touch it nowhere else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stratalog.buffers import aligned_buffer
from stratalog.errors import CorruptRecordError
from stratalog.limits import INT64_MAX
from stratalog.records.batch import LOG_OVERHEAD, RECORD_BATCH_OVERHEAD
from stratalog.records.columns import wrong_crc
from stratalog.records.kernels import index as kernel
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.walk import BATCH, BatchTable
from stratalog.records.reader import BatchRow
from stratalog.records.walk import Walk, WalkStop, explain_stop, new_table, walk_batches

ReadInto = Callable[[Bytes, int], int]
"""Fills a buffer with a file's bytes from a position on, and says how many there were."""

CHUNK_SIZE = 1 << 20  # of a stream: stays in the CPU's second cache
# Of a search: an index entry is one index.interval.bytes before the next, 4096 unless told otherwise.
_SMALLEST_READ, _FIRST_READ, _LARGEST_READ = 8 << 10, 64 << 10, 256 << 10
_MANY_HEADERS = 4  # in one read: batches are small, so the next read may be larger


class _Workspace(threading.local):
    """Memory for one thread's searches: allocating it for each would cost more than most searches."""

    def __init__(self) -> None:
        self.found = np.zeros(2, BATCH)
        self.buffer = np.empty(_FIRST_READ, np.uint8)


_workspace = _Workspace()


class BatchChunk(NamedTuple):
    """Whole batches: `headers` has their rows, with positions in `data`, whose first byte is byte `position`
    of the file. All of it is used again for the next chunk."""

    data: Bytes
    headers: BatchTable
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A walk through what is in the buffer, which begins at byte `position` of the file."""

    data: Bytes
    position: int
    walk: Walk
    is_last: bool


def walk_file(
    read_into: ReadInto, start: int, end: int, *, check_crc: bool = True, is_ahead: bool = False
) -> Iterator[Part]:
    """Walk bytes [start, end) of a file piece by piece; a part holds until the next one is asked for.

    Memory is one chunk, or one batch where that is larger. Only the last part stops for another reason than
    the end of its piece. `is_ahead` is for a caller that walks one part ahead of the one it works on: a part
    with batches then holds until the next such part but one is asked for, and memory is twice as much.
    """
    table = new_table()
    buffer = aligned_buffer(min(CHUNK_SIZE, max(end - start, 1)))
    spare_table, spare = (new_table(), aligned_buffer(len(buffer))) if is_ahead else (table, buffer)
    position = start
    while position < end:
        wanted = min(len(buffer), end - position)
        filled = read_into(buffer[:wanted], position)
        # A file that has become shorter meanwhile ends where it ends now.
        ends_here = filled < wanted or position + filled >= end
        at, stop = 0, WalkStop.TABLE_FULL
        while stop is WalkStop.TABLE_FULL:
            walk = walk_batches(buffer, start=at, end=filled, table=table, check_crc=check_crc)
            at, stop = walk.next_position, walk.stop
            is_broken = stop in (WalkStop.BAD_LENGTH, WalkStop.BAD_MAGIC)
            is_last = is_broken or (ends_here and stop is not WalkStop.TABLE_FULL)
            yield Part(data=buffer, position=position, walk=walk, is_last=is_last)
            if len(walk.headers):
                table, spare_table = spare_table, table
        if is_last:
            return
        position += at
        if at > 0:
            buffer, spare = spare, buffer
        else:
            # Not one batch fits: make room for this one, if the file can hold what its length says.
            needed = int.from_bytes(buffer[8:12].tobytes(), "big") + LOG_OVERHEAD
            if needed > end - position:
                # Torn, or a damaged length: it is not worth the memory to read all that follows.
                nothing = Walk(headers=table[:0], next_position=0, stop=WalkStop.TORN_TAIL)
                yield Part(data=buffer, position=position, walk=nothing, is_last=True)
                return
            buffer = aligned_buffer(needed)


def stream_batches(
    read_into: ReadInto, start: int, end: int, *, path: str, check_crc: bool = False
) -> Iterator[BatchChunk]:
    """The whole batches of [start, end) in chunks; a torn tail is the end, damage a CorruptRecordError."""
    for part in walk_file(read_into, start, end, check_crc=check_crc):
        headers = part.walk.headers
        bad = np.flatnonzero(~headers["valid"])
        good = headers[: int(bad[0])] if len(bad) else headers
        if len(good):
            yield BatchChunk(part.data, good, part.position)
        if len(bad):
            error = wrong_crc(part.data, headers[int(bad[0])])
            raise error.at(position=part.position + error.position, path=path)
        stop, at = part.walk.stop, part.walk.next_position
        if stop in (WalkStop.BAD_LENGTH, WalkStop.BAD_MAGIC):
            reason = explain_stop(part.data, at, min(len(part.data), at + end - part.position), stop)
            raise CorruptRecordError(reason, position=part.position + at, path=path)


def find_batch(
    read_into: ReadInto, start: int, end: int, kind: int, target: int, *, path: str, reach: int = 0
) -> BatchRow | None:
    """The batch that is looked for (kinds in `kernels.index`) among those of [start, end); None if none is.

    Its positions are the file's. A search for the largest timestamp gives that and the last offset only.
    `reach` is a byte at which, by the index, a header stands that is worth reading with the first.
    """
    if target > INT64_MAX:  # past the largest offset, which only damage brings into a log
        return None
    found, buffer = _workspace.found, _workspace.buffer
    first: Any = found[0]
    first["size"] = 0
    first["max_timestamp"] = target
    position, base = start, 0
    read_size = max(_SMALLEST_READ, min(reach, end) + RECORD_BATCH_OVERHEAD - start)
    if read_size > _FIRST_READ:
        read_size = _SMALLEST_READ  # one header, and then another read: that costs less
    while True:
        wanted = min(read_size, end - position)
        filled = read_into(buffer[:wanted], position) if wanted > 0 else 0
        left = end - position if filled == wanted else filled
        outcome, at, count = kernel.seek(buffer, filled, left, kind, target, found)
        if count:
            base = position
        if outcome == kernel.FOUND:
            return _row(first, base)
        if outcome == kernel.BROKEN:
            raise _broken(buffer, at, filled, position, path)
        if outcome == kernel.AT_END:
            is_found = (kind == kernel.LAST and first["size"] > 0) or (
                kind == kernel.LARGEST_TIMESTAMP and first["max_timestamp"] > target
            )
            return _row(first, base) if is_found else None
        position += at
        if count >= _MANY_HEADERS and read_size < _LARGEST_READ:
            read_size *= 2
            if read_size > len(buffer):
                buffer = np.empty(read_size, np.uint8)


def _row(found: Any, base: int) -> BatchRow:  # Any: a row of `BATCH`
    row = found.item()
    return BatchRow._make((row[0] + base, *row[1:6], row[6] + base, row[7] + base, *row[8:]))


def _broken(buffer: Bytes, at: int, filled: int, position: int, path: str) -> CorruptRecordError:
    stop = WalkStop.BAD_MAGIC if buffer[at + 16] > 2 else WalkStop.BAD_LENGTH
    return CorruptRecordError(explain_stop(buffer, at, filled, stop), position=position + at, path=path)
