"""The batches of a .log or .checkpoint file, chunk by chunk; the next chunks are read ahead.

A file is read in pieces of 4 MiB that start on a page. If a batch reaches past the end of a piece, its start
is copied into free space before the next piece, so that every batch is whole in one array. Reading and the
kernels run without the GIL, so a dump can use all cores.
"""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from stratalog.buffers import aligned_buffer
from stratalog.files.disk import ReadFile
from stratalog.files.reading import DiskReader
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.walk import LOG_OVERHEAD, SMALLEST_V0
from stratalog.records.unpack import RUN_SIZE
from stratalog.records.walk import WalkStop, explain_stop, new_table, walk_batches
from stratalog.segment.headers import BatchChunk

CHUNK_SIZE = 4 << 20
_ROOM_IN_FRONT = 1 << 20
READERS = 2  # copying out of the page cache takes longer than walking the batches


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Where the batches end. `left_size` bytes follow that are not batches, and `reason` says why.

    `is_torn`: Kafka's reader would see only an incomplete last batch.
    """

    position: int
    left_size: int
    is_torn: bool = True
    reason: str = ""


class DumpedBatches:
    """The batches of bytes [start, end) of an open file. `end_found` is set after iterating."""

    def __init__(self, disk: DiskReader, file: ReadFile, start: int, end: int) -> None:
        self._disk = disk
        self._file = file
        self._start = min(start, end)
        self._end = end
        self._table = new_table()
        self.end_found = End(position=self._start, left_size=0)

    def __iter__(self) -> Iterator[BatchChunk]:
        rest: Bytes = aligned_buffer(0)
        position = self._start
        for piece, room, size in self._pieces():
            if len(rest) > room:
                # A batch of several pieces: its bytes so far and this piece are copied to new memory.
                larger = aligned_buffer(len(rest) + size)
                larger[len(rest) :] = piece[room : room + size]
                piece, room = larger, len(rest)
            begin = room - len(rest)
            piece[begin:room] = rest
            end, stop = room + size, WalkStop.TABLE_FULL
            while stop is WalkStop.TABLE_FULL:
                walk = walk_batches(piece, start=begin, end=end, table=self._table, max_size=RUN_SIZE)
                if len(walk.headers):
                    yield BatchChunk(piece, walk.headers, position - (room - len(rest)))
                begin, stop = walk.next_position, walk.stop
            consumed = begin - (room - len(rest))
            rest, position = piece[begin:end].copy(), position + consumed
            if stop not in (WalkStop.END, WalkStop.TORN_TAIL) or position + len(rest) >= self._end:
                self.end_found = self._explain(rest, position, stop)
                return

    def _explain(self, rest: Bytes, position: int, stop: WalkStop) -> End:
        left_size = self._end - position
        if stop is WalkStop.END or left_size == 0:
            return End(position=position, left_size=0)
        # To Kafka, a length that reaches past the end means a torn batch, whatever the magic after it.
        length = int.from_bytes(rest[8:LOG_OVERHEAD].tobytes(), "big", signed=True)
        is_torn = stop is WalkStop.TORN_TAIL or (length >= SMALLEST_V0 and length > left_size - LOG_OVERHEAD)
        reason = explain_stop(rest, 0, left_size, WalkStop.TORN_TAIL if is_torn else stop)
        return End(position=position, left_size=left_size, is_torn=is_torn, reason=reason)

    def _pieces(self) -> Iterator[tuple[Bytes, int, int]]:
        """(memory, position of the piece in it, its size) for each piece; the next ones are read ahead."""
        count = -(-(self._end - self._start + self._start % mmap.PAGESIZE) // CHUNK_SIZE)
        buffers = [_new_buffer(self._end - self._start) for _ in range(min(READERS + 1, count))]
        coming: deque[Future[int]] = deque()
        with ThreadPoolExecutor(READERS) as readers:
            submitted = 0
            for number in range(count):
                # The buffer of the previous piece is free again.
                while submitted < min(number + len(buffers), count):
                    buffer = buffers[submitted % len(buffers)]
                    coming.append(readers.submit(self._read, buffer, *self._borders(submitted)))
                    submitted += 1
                size = coming.popleft().result()
                start, end = self._borders(number)
                if size < end - start:  # the file became shorter meanwhile: it ends here now
                    self._end = start + size
                yield buffers[number % len(buffers)], _ROOM_IN_FRONT, size

    def _borders(self, number: int) -> tuple[int, int]:
        """The start and end of a piece: all pieces except the first start on a page border."""
        first = self._start - self._start % mmap.PAGESIZE
        start = max(self._start, first + number * CHUNK_SIZE)
        return start, min(first + (number + 1) * CHUNK_SIZE, self._end)

    def _read(self, buffer: Bytes, start: int, end: int) -> int:
        wanted = buffer[_ROOM_IN_FRONT : _ROOM_IN_FRONT + end - start]
        return self._disk.read_into(self._file, wanted, start)


def _new_buffer(size: int) -> Bytes:
    return aligned_buffer(_ROOM_IN_FRONT + min(size, CHUNK_SIZE))
