"""Appends what is left of a group of segments to the segment that replaces them.

Compressing and writing a run take about as long as reading and judging the next one, and need no GIL. So if
there is much to write, a separate thread does both, a few runs behind.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from queue import SimpleQueue
from types import TracebackType
from typing import NamedTuple, Protocol

from stratalog.log.cleaning.filter import FilteredRun, JudgedRun, OutputMemory
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.walk import BatchTable
from stratalog.segment.txn_index import AbortedTxn

NO_TIMESTAMP = -1
_MEMORIES = 3  # one is filled, one is written, one waits


class Target(Protocol):
    """Where runs go: to a cleaned segment, or to the spool of a cleaning that reads backwards."""

    def append(self, data: Bytes, batches: BatchTable, largest_offset: int) -> None: ...
    def append_aborted(self, aborted: AbortedTxn) -> None: ...


class _Job(NamedTuple):
    run: JudgedRun
    aborted: Sequence[AbortedTxn]


class CleanedOutput:
    """The last stage of a cleaning: writes runs, in order, to a segment or a spool; for a forecast, nowhere.

    `is_behind` says whether a thread does the work; entering the context starts it. Leaving the context waits
    for the thread and raises its error. `size` and `max_timestamp` are those of the runs written so far.
    """

    def __init__(self, cleaned: Target | None, *, is_behind: bool) -> None:
        self._cleaned = cleaned
        self.size, self.max_timestamp = 0, NO_TIMESTAMP
        self._reported_size = 0
        self._problem: BaseException | None = None
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._free: SimpleQueue[OutputMemory] = SimpleQueue()
        for _ in range(_MEMORIES if is_behind else 1):
            self._free.put(OutputMemory())
        self._is_stopped = False
        self._thread: threading.Thread | None = None
        if is_behind:
            self._thread = threading.Thread(target=self._work, name="stratalog-cleaned", daemon=True)

    def __enter__(self) -> CleanedOutput:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self.stop()
            return
        self._join()
        if self._problem is not None:
            raise self._problem

    def stop(self) -> None:
        """Write nothing more, and end the thread. May be called at any time, and more than once."""
        self._is_stopped = True
        self._join()

    def _join(self) -> None:
        self._jobs.put(None)
        # A thread whose start was interrupted by Ctrl-C may begin later: it finds no job, and ends.
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()

    def memory(self) -> OutputMemory:
        """Memory to judge a run into; waits until some is free, and raises the thread's error."""
        found = self._free.get()
        if self._problem is not None:
            raise self._problem
        return found

    def put(self, run: JudgedRun, aborted: Sequence[AbortedTxn]) -> None:
        """Write a run, and index the aborted transactions whose markers it has."""
        if self._thread is None:
            self.write(run.finish(), aborted)
            self._free.put(run.memory)
        else:
            self._jobs.put(_Job(run, aborted))

    def give_back(self, run: JudgedRun) -> None:
        """Take back the memory of a run; the caller has finished and written that run itself."""
        self._free.put(run.memory)

    def write(self, kept: FilteredRun, aborted: Sequence[AbortedTxn]) -> None:
        """Append a run that is finished; the caller may do this only if there is no thread."""
        if self._cleaned is not None:
            for transaction in aborted:
                self._cleaned.append_aborted(transaction)
        if len(kept.data):
            if self._cleaned is not None:
                self._cleaned.append(kept.data, kept.batches, kept.max_offset)
            self.max_timestamp = max(self.max_timestamp, int(kept.batches["max_timestamp"].max()))
            self.size += len(kept.data)

    @property
    def is_written(self) -> bool:
        """False for a forecast."""
        return self._cleaned is not None

    def newly_written(self) -> int:
        """The number of bytes written since the last call."""
        size = self.size
        written, self._reported_size = size - self._reported_size, size
        return written

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                if self._problem is None and not self._is_stopped:
                    self.write(job.run.finish(), job.aborted)
            except BaseException as error:  # raised again in the thread of the cleaning
                self._problem = error
            self._free.put(job.run.memory)
