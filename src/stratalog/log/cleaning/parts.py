"""The batches of a file in parts, each in memory of its own, so that several threads can work on them.

Parts are read and walked one after the other, because only the walk of one part says where the next one
begins. Unpacking and decoding a part needs no other part.

Every batch is read whole and its checksum checked. Kafka's cleaner does not check it; but then a damaged key
could replace the record of another key, and a rewritten batch would get a valid checksum.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from stratalog.buffers import aligned_buffer
from stratalog.errors import CorruptRecordError
from stratalog.limits import INT64_MAX, INT64_MIN
from stratalog.records.batch import LOG_OVERHEAD
from stratalog.records.compression import CODEC_MASK, Scratch
from stratalog.records.kernels import decode as decoding
from stratalog.records.kernels.decode import RECORD, RecordTable
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.offset_map import Hashes
from stratalog.records.kernels.walk import BatchTable
from stratalog.records.unpack import Run, invalid_record
from stratalog.records.walk import WalkStop, explain_stop, new_table, walk_batches
from stratalog.segment.headers import CHUNK_SIZE

_FIRST_ROWS = 8192
_PACKED_CHUNK_SIZE = CHUNK_SIZE >> 2
# Sizes of the parts of a file that is read backwards. `adapt` chooses one from the least to CHUNK_SIZE, so
# that a compressed part fills about one run when it is unpacked.
_LEAST_PART_SIZE = CHUNK_SIZE >> 6
_MOST_PART_SIZE = 8 * CHUNK_SIZE  # for batches that are larger than usual, or a sparse index
_AHEAD_SIZE = 8 * CHUNK_SIZE


class BatchFile(Protocol):
    """Batches to be read: a segment, a file of another name, or a range in quarantine."""

    @property
    def log_path(self) -> str: ...

    @property
    def size(self) -> int: ...

    def read_into(self, buffer: Bytes, position: int) -> int: ...


class RunMemory:
    """Memory into which one run is decompressed and decoded."""

    __slots__ = ("_rows", "hashes", "scratch")

    def __init__(self) -> None:
        self.scratch = Scratch()
        self._rows: RecordTable = np.empty(_FIRST_ROWS, RECORD)
        self.hashes: Hashes = np.empty((_FIRST_ROWS, 2), np.uint64)

    def decode(self, run: Run) -> RecordTable:
        decode = decoding.decode_legacy if run.is_legacy else decoding.decode
        done, at, outcome = 0, (0, 0, 0), decoding.MORE
        while True:
            count, outcome, at = decode(
                run.data, run.batches, self._rows[done:], at, INT64_MAX, INT64_MIN, INT64_MAX
            )
            done += count
            if outcome != decoding.MORE:
                break
            # Memory grows with the records that are really there, not with the count in a header.
            rows = np.empty(2 * len(self._rows), RECORD)
            rows[:done] = self._rows[:done]
            self._rows = rows
            self.hashes = np.empty((len(rows), 2), np.uint64)
        if outcome != decoding.DONE:
            raise invalid_record(run.batches[at[0]], outcome)
        return self._rows[:done]


class PartMemory:
    """Memory for a part: its bytes, its headers, and two of its runs, the current one and the next."""

    __slots__ = ("_buffer", "_table", "runs")

    def __init__(self) -> None:
        self._buffer = aligned_buffer(CHUNK_SIZE)
        self._table = new_table()
        self.runs = (RunMemory(), RunMemory())

    def room_for(self, size: int) -> Bytes:
        """A buffer of at least this size; a large one is given back when it is no longer needed."""
        if size > len(self._buffer) or size <= CHUNK_SIZE < len(self._buffer):
            self._buffer = aligned_buffer(max(size, CHUNK_SIZE))
        return self._buffer

    def walk(self, end: int) -> tuple[BatchTable, int, WalkStop]:
        """The headers of the batches in the first `end` bytes, where the batches end, and why."""
        count, at = 0, 0
        while True:
            walk = walk_batches(self._buffer, start=at, end=end, table=self._table[count:])
            count, at = count + len(walk.headers), walk.next_position
            if walk.stop is not WalkStop.TABLE_FULL:
                return self._table[:count], at, walk.stop
            larger = new_table(2 * len(self._table))
            larger[:count] = self._table
            self._table = larger


class FilePart(NamedTuple):
    """Whole batches; `data` begins at byte `position` of the file, and the headers have positions in it.

    `problem` is the error if the bytes after these batches cannot be read.
    """

    data: Bytes
    position: int
    headers: BatchTable
    problem: CorruptRecordError | None


class PartSource:
    """Reads a file part by part; for one thread at a time.

    Parts with compressed batches are smaller: so a part is usually one run, and threads share the work
    equally.
    """

    __slots__ = ("_chunk_size", "_file", "_position", "is_at_end")

    def __init__(self, file: BatchFile, position: int) -> None:
        self._file, self._position = file, position
        self._chunk_size = CHUNK_SIZE
        self.is_at_end = position >= file.size

    def next_part(self, memory: PartMemory) -> FilePart | None:
        """The next part, in this memory; None at the end."""
        size, wanted = self._file.size, self._chunk_size
        while not self.is_at_end:
            wanted = min(wanted, size - self._position)
            data = memory.room_for(wanted)
            filled = self._file.read_into(data[:wanted], self._position)
            headers, at, stop = memory.walk(filled)
            # The file may have become shorter meanwhile.
            ends_here = filled < wanted or self._position + filled >= size
            if not ends_here and stop is WalkStop.TORN_TAIL:
                if at:
                    return self._part(data, headers, at)
                # The batch does not fit: make room for it, if the file is as long as its length says.
                needed = int.from_bytes(data[8:12].tobytes(), "big") + LOG_OVERHEAD
                if needed <= size - self._position:
                    wanted = needed
                    continue
                # Torn, or a damaged length: reading all that follows would waste memory.
            elif not ends_here and stop is WalkStop.END:
                return self._part(data, headers, at)
            self.is_at_end = True
            problem = None
            if stop is not WalkStop.END:
                problem = self._problem(at, explain_stop(data, at, filled, stop))
            elif self._position + at < size:
                left = size - self._position - at
                problem = self._problem(at, f"the file ends here, {left} bytes too early.")
            return self._part(data, headers, at, problem)
        return None

    def _part(
        self, data: Bytes, headers: BatchTable, end: int, problem: CorruptRecordError | None = None
    ) -> FilePart:
        position = self._position
        self._position += end
        if len(headers):
            is_packed = headers["attributes"][-1] & CODEC_MASK != 0
            self._chunk_size = _PACKED_CHUNK_SIZE if is_packed else CHUNK_SIZE
        return FilePart(data, position, headers, problem)

    def _problem(self, at: int, reason: str) -> CorruptRecordError:
        """A torn tail is a problem too: it would be lost with the old file."""
        return CorruptRecordError(reason, position=self._position + at, path=self._file.log_path)


class NotBackwardsError(Exception):
    """This file cannot be read backwards; reading it forwards shows why, or shows no problem."""


class BackwardSource:
    """Reads a file backwards, part by part, from its end down to a position; for one thread at a time.

    `starts` are positions at which batches start, in order. `expect_read` is told what is read next, because
    operating systems read ahead only forwards.
    """

    __slots__ = ("_end", "_expect_read", "_expected", "_file", "_position", "_starts", "part_size")

    def __init__(
        self,
        file: BatchFile,
        position: int,
        starts: list[int],
        expect_read: Callable[[int, int], object],
    ) -> None:
        self._file, self._position, self._starts = file, position, starts
        self._end = self._expected = file.size
        self._expect_read = expect_read
        self.part_size = _LEAST_PART_SIZE  # until it is known how large the records are when unpacked

    def next_part(self, memory: PartMemory) -> FilePart | None:
        """The part before the one returned last, in this memory; None once that position is reached."""
        if self._end <= self._position:
            return None
        start = self._start()
        size = self._end - start
        if not 0 < size <= _MOST_PART_SIZE:
            raise NotBackwardsError
        if max(self._position, start - _AHEAD_SIZE // 2) < self._expected:
            below = max(self._position, start - _AHEAD_SIZE)
            self._expect_read(below, self._expected - below)
            self._expected = below
        data = memory.room_for(size)
        filled = self._file.read_into(data[:size], start)
        headers, at, stop = memory.walk(filled)
        if not filled == at == size or stop is not WalkStop.END:
            raise NotBackwardsError
        self._end = start
        return FilePart(data, start, headers, None)

    def _start(self) -> int:
        """Where the next part starts; it has `part_size` bytes or less if there are starts for that."""
        starts, wanted = self._starts, self._end - self.part_size
        if wanted <= self._position:
            return self._position
        slot = bisect_left(starts, wanted)
        if slot < len(starts) and starts[slot] < self._end:
            return max(starts[slot], self._position)
        return max(starts[slot - 1], self._position) if slot else self._position

    def adapt(self, size: int, run_size: int, wanted: int) -> None:
        """Choose parts of about `wanted` unpacked bytes; the last had `size` bytes, `run_size` unpacked."""
        fitting = size * wanted // max(run_size, 1)
        self.part_size = min(max(fitting, _LEAST_PART_SIZE), CHUNK_SIZE)
