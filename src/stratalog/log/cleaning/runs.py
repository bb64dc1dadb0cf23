"""A segment's records in runs, as both passes of the cleaner read them, in reused memory.

Reading, unpacking and hashing take about as long as the cleaner's own work on a run, and all of them
run without the GIL: a second thread prepares the next run while the caller works on this one.

Every batch is read whole and its checksum checked. Kafka's cleaner does not check it; but a damaged key would
replace another key, and a rewritten batch would get a valid checksum.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import NamedTuple, Protocol

import numpy as np

from stratalog.errors import CorruptRecordError
from stratalog.limits import INT64_MAX, INT64_MIN
from stratalog.records.compression import DEFAULT_LIMIT, Scratch
from stratalog.records.kernels import decode as decoding
from stratalog.records.kernels.decode import RECORD, RecordTable
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.offset_map import Hashes
from stratalog.records.kernels.walk import BatchTable, survey
from stratalog.records.unpack import Run, invalid_record, next_run
from stratalog.records.walk import WalkStop, explain_stop, wrong_crc
from stratalog.segment.headers import CHUNK_SIZE, Part, walk_file

_FIRST_ROWS = 8192


class BatchFile(Protocol):
    """Batches to be read: a segment, a file of another name, or a range in quarantine."""

    @property
    def log_path(self) -> str: ...

    @property
    def size(self) -> int: ...

    def read_into(self, buffer: Bytes, position: int) -> int: ...


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


_Asked = SimpleQueue[Future[DecodedRun | None] | None]
"""Memory for the runs that are requested; None when no more are wanted."""


class RunReader:
    """Reads segments, one at a time; holds the memory for the current run and the next one."""

    __slots__ = ("_hash_rows", "_memory", "_spare")

    def __init__(self, hash_rows: HashRows | None = None) -> None:
        self._hash_rows = hash_rows
        self._memory, self._spare = _Memory(), _Memory()

    def read(
        self, segment: BatchFile, start_position: int = 0, *, is_hashed: bool = True
    ) -> Iterator[DecodedRun]:
        """All batches from a position on; CorruptRecordError if they do not reach the end of the file.

        The keys are hashed if `is_hashed` and the reader was told how.
        """
        runs = self._read(segment, start_position, self._hash_rows if is_hashed else None)
        # A segment that fits into one run leaves nothing to read ahead.
        return runs if segment.size - start_position <= CHUNK_SIZE else _ahead(runs)

    def _read(
        self, segment: BatchFile, start_position: int, hash_rows: HashRows | None
    ) -> Iterator[DecodedRun]:
        path = segment.log_path
        parts = walk_file(segment.read_into, start_position, segment.size, check_crc=True, is_ahead=True)
        for part in parts:
            try:
                yield from self._runs(part, hash_rows)
            except CorruptRecordError as error:
                raise error.at(position=part.position + error.position, path=path) from error
            _check_end(part, segment.size, path)
            start_position = part.position + part.walk.next_position
        if start_position < segment.size:
            raise CorruptRecordError(
                f"the file ends here, {segment.size - start_position} bytes too early.",
                position=start_position,
                path=path,
            )

    def _runs(self, part: Part, hash_rows: HashRows | None) -> Iterator[DecodedRun]:
        headers = part.walk.headers
        start = 0
        while start < len(headers):
            good, _, _, _ = survey(headers, start)
            if good == start:
                raise wrong_crc(part.data, headers[start])
            memory = self._memory
            run = next_run(part.data, headers[:good], start, memory.scratch, DEFAULT_LIMIT)
            count = len(run.batches)
            if count:
                rows = memory.decode(run)
                hashes = memory.hashes[: 0 if hash_rows is None else len(rows)]
                if hash_rows is not None:
                    hash_rows(run.data, rows, hashes)
                first, last = headers[start], headers[start + count - 1]
                size = int(last["position"]) + int(last["size"]) - int(first["position"])
                self._memory, self._spare = self._spare, memory
                yield DecodedRun(part.data, run.data, run.batches, rows, hashes, size)
            if run.problem is not None:
                raise run.problem
            start += count


def _ahead(runs: Iterator[DecodedRun]) -> Iterator[DecodedRun]:
    """The same runs; each is requested when the previous run is returned.

    The thread ends with the runs, or when the iterator is dropped or fails, so nothing reads a segment that
    its owner may then close. An executor is not used, because executors stop when the main thread ends, while
    other threads, such as the cleaner's, may go on.
    """
    asked: _Asked = SimpleQueue()
    thread = threading.Thread(target=_prepare, args=(runs, asked), name="stratalog-runs", daemon=True)
    thread.start()
    try:
        coming = _ask(asked)
        while (run := coming.result()) is not None:
            coming = _ask(asked)
            yield run
    finally:
        asked.put(None)
        thread.join()


def _ask(asked: _Asked) -> Future[DecodedRun | None]:
    coming: Future[DecodedRun | None] = Future()
    asked.put(coming)
    return coming


def _prepare(runs: Iterator[DecodedRun], asked: _Asked) -> None:
    while (coming := asked.get()) is not None:
        try:
            coming.set_result(next(runs, None))
        except BaseException as error:  # raised again in the consumer
            coming.set_exception(error)


class _Memory:
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


def _check_end(part: Part, size: int, path: str) -> None:
    """The last run must end where the file ends: a torn tail would be lost with the old file."""
    walk = part.walk
    if part.is_last and walk.stop not in (WalkStop.END, WalkStop.TABLE_FULL):
        at = walk.next_position
        end = min(len(part.data), at + size - part.position)
        raise CorruptRecordError(
            explain_stop(part.data, at, end, walk.stop), position=part.position + at, path=path
        )
