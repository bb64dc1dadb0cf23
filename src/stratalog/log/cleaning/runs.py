"""Reads a segment's records in runs of batches, for both passes of the cleaner, in reused memory.

Reading, unpacking and hashing take longer than the cleaner's own work on a run, and need no GIL. So other
threads prepare the next runs while the caller works on this one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from contextlib import closing
from queue import SimpleQueue
from typing import NamedTuple

from stratalog.errors import CorruptRecordError
from stratalog.log.cleaning.parts import (
    BackwardSource,
    BatchFile,
    FilePart,
    NotBackwardsError,
    PartMemory,
    PartSource,
)
from stratalog.records import unpack
from stratalog.records.compression import DEFAULT_LIMIT
from stratalog.records.kernels.decode import RecordTable
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.offset_map import Hashes
from stratalog.records.kernels.walk import BatchTable, survey
from stratalog.records.unpack import next_run
from stratalog.records.walk import wrong_crc
from stratalog.segment.headers import CHUNK_SIZE

MOST_THREADS = 4
_MOST_RUN_SIZE = 16 << 20  # of a part that is read backwards; it must be one run

HashRows = Callable[[Bytes, RecordTable, Hashes], None]
"""Writes the hash of each row's key; the rows' keys are in the bytes."""


class DecodedRun(NamedTuple):
    """Batches: `original` has their bytes as in the file, and `data` their decompressed records.

    `rows` has a row for each record, in order, and `hashes` their keys' hashes; it is empty if the reader
    makes none. All arrays are valid until the next run is requested.
    """

    original: Bytes
    data: Bytes
    batches: BatchTable
    rows: RecordTable
    hashes: Hashes
    size: int
    """Bytes of these batches in the file."""


class RunReader:
    """Reads segments, one at a time; holds the memory for the current run and the next ones.

    `threads` prepare runs ahead; None: as many as there are cores, at most MOST_THREADS.
    """

    __slots__ = ("_hash_rows", "_memories", "_threads")

    def __init__(self, hash_rows: HashRows | None = None, *, threads: int | None = None) -> None:
        self._hash_rows = hash_rows
        self._threads = threads or min(MOST_THREADS, _cores())
        self._memories = [PartMemory()]

    def read(
        self, segment: BatchFile, start_position: int = 0, *, is_hashed: bool = True
    ) -> closing[Generator[DecodedRun, None, None]]:
        """All batches from a position on; CorruptRecordError if they do not reach the end of the file.

        The keys are hashed if `is_hashed` is set and the reader has a function for it. At the end of the
        context, even after an error, no thread reads the segment any more.
        """
        hash_rows = self._hash_rows if is_hashed else None
        source = PartSource(segment, start_position)
        return self._read(_Decoder(segment.log_path, source, hash_rows), segment.size - start_position)

    def read_backwards(
        self,
        segment: BatchFile,
        start_position: int,
        starts: list[int],
        expect_read: Callable[[int, int], object],
    ) -> closing[Generator[DecodedRun, None, None]]:
        """The same batches in runs from the last to the first; `starts` are positions at which batches start.

        NotBackwardsError or CorruptRecordError if that is not possible; reading forwards may still be.
        """
        source = BackwardSource(segment, start_position, starts, expect_read)
        decoder = _BackwardDecoder(segment.log_path, source, self._hash_rows)
        return self._read(decoder, segment.size - start_position)

    def _read(self, decoder: _Decoder, size: int) -> closing[Generator[DecodedRun, None, None]]:
        chunks_count = -(-size // CHUNK_SIZE)
        if chunks_count <= 1:  # there is nothing to read ahead
            return closing(decoder.all_runs(self._memories[0]))
        threads = min(self._threads, chunks_count)
        # One part is with the caller, each thread has one, and one is ready.
        self._memories += [PartMemory() for _ in range(threads + 2 - len(self._memories))]
        return closing(_ahead(decoder, self._memories, threads))


class _Decoder:
    """Decodes the parts of one file."""

    run_size: int | None = None

    def __init__(self, path: str, source: PartSource | BackwardSource, hash_rows: HashRows | None) -> None:
        self._path, self._hash_rows = path, hash_rows
        self.source = source

    def all_runs(self, memory: PartMemory) -> Generator[DecodedRun, None, None]:
        """The runs of all parts, in the same memory."""
        while (part := self.source.next_part(memory)) is not None:
            yield from self.runs(part, memory)

    def runs(self, part: FilePart, memory: PartMemory) -> Generator[DecodedRun, None, None]:
        """The runs of a part; a run is valid until the one after the next is requested."""
        try:
            yield from self._runs(part, memory)
        except CorruptRecordError as error:
            raise error.at(position=part.position + error.position, path=self._path) from error
        if part.problem is not None:
            raise part.problem

    def _runs(self, part: FilePart, memory: PartMemory) -> Generator[DecodedRun, None, None]:
        headers, hash_rows = part.headers, self._hash_rows
        current, spare = memory.runs
        start = 0
        while start < len(headers):
            good, _, _, _ = survey(headers, start)
            if good == start:
                raise wrong_crc(part.data, headers[start])
            run = next_run(part.data, headers[:good], start, current.scratch, DEFAULT_LIMIT, self.run_size)
            count = len(run.batches)
            if count:
                rows = current.decode(run)
                hashes = current.hashes[: 0 if hash_rows is None else len(rows)]
                if hash_rows is not None:
                    hash_rows(run.data, rows, hashes)
                first, last = headers[start], headers[start + count - 1]
                size = int(last["position"]) + int(last["size"]) - int(first["position"])
                current, spare = spare, current
                yield DecodedRun(part.data, run.data, run.batches, rows, hashes, size)
            if run.problem is not None:
                raise run.problem
            start += count


class _BackwardDecoder(_Decoder):
    """Decodes each part as one run, so that runs come in the order of the parts."""

    source: BackwardSource
    run_size = _MOST_RUN_SIZE

    def _runs(self, part: FilePart, memory: PartMemory) -> Generator[DecodedRun, None, None]:
        for run in super()._runs(part, memory):
            if len(run.batches) < len(part.headers):
                raise NotBackwardsError
            is_packed = run.data is not part.data
            unpacked = int(run.batches["records_end"][-1]) if is_packed else run.size
            self.source.adapt(run.size, unpacked, unpack.RUN_SIZE if is_packed else CHUNK_SIZE)
            yield run


class _Task:
    """A part that a thread works on: its runs, then None or an error.

    `room` has an item for each memory that is free for another run of the part.
    """

    __slots__ = ("memory", "room", "runs")

    def __init__(self, memory: PartMemory) -> None:
        self.memory = memory
        self.room: SimpleQueue[None] = SimpleQueue()
        for _ in memory.runs:
            self.room.put(None)
        self.runs: SimpleQueue[DecodedRun | BaseException | None] = SimpleQueue()


def _ahead(
    decoder: _Decoder, memories: list[PartMemory], threads_count: int
) -> Generator[DecodedRun, None, None]:
    """The same runs, in order; threads decode the next ones.

    The threads end with the runs, or when the iterator is dropped or fails, so nothing reads a segment that
    its owner may then close. `stop` is called twice, because Ctrl-C may interrupt the first call. An
    executor is not used, because executors stop when the main thread ends, while other threads, such as the
    cleaner's, may go on.
    """
    pool = _Pool(decoder, memories)
    threads = [
        threading.Thread(target=pool.work, name="stratalog-runs", daemon=True) for _ in range(threads_count)
    ]
    try:
        try:
            for thread in threads:
                thread.start()
            while (task := pool.tasks.get()) is not None:
                while (run := task.runs.get()) is not None:
                    if isinstance(run, BaseException):
                        raise run
                    yield run
                    task.room.put(None)
                pool.free.put(task.memory)
        finally:
            pool.stop(threads)
    finally:
        pool.stop(threads)


class _Pool:
    """The state that the threads share: parts are taken one at a time, and decoded side by side."""

    def __init__(self, decoder: _Decoder, memories: list[PartMemory]) -> None:
        self._decoder = decoder
        self._turn = threading.Lock()
        self._begun: list[_Task] = []  # the last tasks; as many as there are memories
        self._memories_count = len(memories)
        self._is_stopped = False
        self.tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self.free: SimpleQueue[PartMemory | None] = SimpleQueue()
        for memory in memories:
            self.free.put(memory)

    def stop(self, threads: list[threading.Thread]) -> None:
        """End the threads, and wait for them."""
        self._is_stopped = True
        for _ in threads:
            self.free.put(None)
        for task in self._begun:
            task.room.put(None)
        for thread in threads:
            # A thread whose start was interrupted by Ctrl-C may begin later: it reads nothing, and ends.
            if thread.is_alive():
                thread.join()

    def work(self) -> None:
        """What each thread does until there are no more parts."""
        while (memory := self.free.get()) is not None:
            task = _Task(memory)
            with self._turn:
                # The order of the tasks is that of the parts.
                if self._is_stopped:
                    return
                try:
                    part = self._decoder.source.next_part(memory)
                except BaseException as error:  # raised again in the consumer
                    task.runs.put(error)
                    self.tasks.put(task)
                    return
                if part is None:
                    self.tasks.put(None)
                    return
                self._begun = [*self._begun, task][-self._memories_count :]
                self.tasks.put(task)
            self._decode(part, task)

    def _decode(self, part: FilePart, task: _Task) -> None:
        runs = self._decoder.runs(part, task.memory)
        found: DecodedRun | BaseException | None
        while True:
            task.room.get()
            if self._is_stopped:
                return
            try:
                found = next(runs, None)
            except BaseException as error:  # raised again in the consumer
                found = error
            task.runs.put(found)
            if not isinstance(found, DecodedRun):
                return


def _cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
