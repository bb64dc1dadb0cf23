"""Reads the batches of a .log file, whole and in order, or only their headers to find one batch.

Both read the file only through a function that the caller gives (`ReadInto`).
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
from stratalog.records.kernels import index as kernel
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.walk import BATCH, BatchTable
from stratalog.records.reader import BatchRow
from stratalog.records.walk import Walk, WalkStop, explain_stop, new_table, walk_batches, wrong_crc

ReadInto = Callable[[Bytes, int], int]
"""Fills a buffer with a file's bytes from a position on; returns how many were read."""
WalkPiece = Callable[[Bytes, int, int, int], Walk]
"""Walks buffer[start:end]; the fourth number is the position of the buffer's first byte in the file."""

CHUNK_SIZE = 1 << 20  # of a stream: fits into the CPU's second-level cache
# Sizes of the reads of a search: index entries are index.interval.bytes apart, by default 4096.
_SMALLEST_READ, _FIRST_READ, _LARGEST_READ = 8 << 10, 64 << 10, 256 << 10
_MANY_HEADERS = 4  # if one read has this many, batches are small, and the next read may be larger


class _Workspace(threading.local):
    """Memory for one thread's searches: allocating it for each would cost more than most searches."""

    def __init__(self) -> None:
        self.found = np.zeros(2, BATCH)
        self.buffer = np.empty(_FIRST_READ, np.uint8)


_workspace = _Workspace()


class BatchChunk(NamedTuple):
    """Whole batches; the memory is reused for the next chunk.

    `headers` has their rows, with positions in `data`, whose first byte is byte `position` of the file.
    """

    data: Bytes
    headers: BatchTable
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A walk through a buffer whose first byte is byte `position` of the file."""

    data: Bytes
    position: int
    walk: Walk
    is_last: bool


def walk_file(
    read_into: ReadInto,
    start: int,
    end: int,
    *,
    check_crc: bool = True,
    buffer: Bytes | None = None,
    walk_piece: WalkPiece | None = None,
) -> Iterator[Part]:
    """Walk bytes [start, end) of a file piece by piece; a part is valid until the next one is requested.

    Memory is one chunk, or one batch if that is larger. All parts except the last end because their piece of
    the file ends or the table is full. `buffer` is the memory of a chunk, for a caller that reads many files
    or larger chunks; `walk_piece` replaces the usual walk.
    """
    if walk_piece is None:
        table = new_table()

        def walk_piece(data: Bytes, start: int, end: int, _position: int) -> Walk:
            return walk_batches(data, start=start, end=end, table=table, check_crc=check_crc)

    chunk = buffer = aligned_buffer(min(CHUNK_SIZE, max(end - start, 1))) if buffer is None else buffer
    position = start
    while position < end:
        wanted = min(len(buffer), end - position)
        filled = read_into(buffer[:wanted], position)
        # The file may have become shorter meanwhile.
        ends_here = filled < wanted or position + filled >= end
        at, stop = 0, WalkStop.TABLE_FULL
        while stop is WalkStop.TABLE_FULL:
            walk = walk_piece(buffer, at, filled, position)
            at, stop = walk.next_position, walk.stop
            is_broken = stop in (WalkStop.BAD_LENGTH, WalkStop.BAD_MAGIC)
            is_last = is_broken or (ends_here and stop is not WalkStop.TABLE_FULL)
            yield Part(data=buffer, position=position, walk=walk, is_last=is_last)
        if is_last:
            return
        position += at
        if at > 0:
            buffer = chunk
        else:
            # The batch does not fit: make room for it, if the file is as long as its length says.
            needed = int.from_bytes(buffer[8:12].tobytes(), "big") + LOG_OVERHEAD
            if needed > end - position:
                # Torn, or a damaged length: reading all that follows would waste memory.
                nothing = Walk(headers=walk.headers[:0], next_position=0, stop=WalkStop.TORN_TAIL)
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
    """Find a batch in [start, end), as `kind` says (`kernels/index.py`); None if there is none.

    Its positions are positions in the file. A search for the largest timestamp returns only the timestamp and
    the last offset. `reach` is the position of a later header, known from the index; it is read together with
    the first header.
    """
    if target > INT64_MAX:  # past the largest offset, which only a damaged log has
        return None
    found, buffer = _workspace.found, _workspace.buffer
    first: Any = found[0]
    first["size"] = 0
    first["max_timestamp"] = target
    position, base = start, 0
    read_size = max(_SMALLEST_READ, min(reach, end) + RECORD_BATCH_OVERHEAD - start)
    if read_size > _FIRST_READ:
        read_size = _SMALLEST_READ  # reading the first header, and then again where the batch is, costs less
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
