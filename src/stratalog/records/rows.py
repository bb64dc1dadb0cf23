"""Batches to rows: walks, checks, unpacks and decodes the batches of a buffer, thousands of rows at a time.

`ColumnReader` turns the rows into Arrow batches, and the `records` method of a log into Python values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from stratalog.errors import CorruptRecordError, UsageError
from stratalog.limits import INT64_MAX, INT64_MIN
from stratalog.records.arrays import RowChunk
from stratalog.records.compression import DEFAULT_LIMIT, Scratch
from stratalog.records.kernels import decode as decoding
from stratalog.records.kernels.decode import RecordTable
from stratalog.records.kernels.memory import Bytes, byte_array
from stratalog.records.kernels.walk import BatchTable, choose, run_facts, survey
from stratalog.records.unpack import RUN_SIZE, Run, invalid_record, next_run
from stratalog.records.walk import WalkStop, explain_stop, new_table, walk_batches, wrong_crc

# Spark handles batches of 4,000 to 32,000 rows and 1 to 8 MB about equally fast. If records have 32 bytes or
# more, a run of RUN_SIZE bytes fits into one batch, so most runs become one Arrow batch.
DEFAULT_MAX_ROWS = 16384
DEFAULT_MAX_BYTES = 4 << 20

_Made = TypeVar("_Made")
Keep = Callable[[BatchTable], NDArray[np.bool_] | None]
"""Gets the rows of batches whose checksums match, in order; returns which to decode, None for all."""
Pick = Callable[[Bytes, RecordTable], NDArray[np.bool_] | None]
"""Gets decoded rows and the bytes they point into; returns which to keep, None for all."""


class RowMemory:
    """The tables that a RowReader fills: readers that follow each other in one thread can share them."""

    def __init__(self) -> None:
        self.table = new_table()
        self.rows = np.zeros(0, decoding.RECORD)
        self.scratch = Scratch()
        self.reads_count = 0

    def rows_of(self, count: int) -> RecordTable:
        """A table of this many rows, always in the same memory."""
        if len(self.rows) < count:
            self.rows = np.zeros(count, decoding.RECORD)
        return self.rows[:count]


class RowReader(ABC, Generic[_Made]):
    """Decodes the buffers of one partition one after the other, and reuses its memory for each.

    It belongs to one thread. `read` yields pieces of at most `max_rows` rows and `max_bytes` bytes of
    records; a larger record is a piece of its own. It leaves out records outside [start_offset, end_offset),
    control records unless `include_control` is set, and the batches that `keep` and the rows that `pick`
    reject. `limit` is the largest size to which one compressed batch may unpack, `run_size` is how much is
    walked and decoded at once. `together` are the columns that a piece copies in one pass. `memory` is the
    memory of an earlier reader, to be used again.
    """

    def __init__(
        self,
        *,
        start_offset: int = INT64_MIN,
        end_offset: int = INT64_MAX + 1,
        include_control: bool = False,
        check_crc: bool = True,
        max_rows: int = DEFAULT_MAX_ROWS,
        max_bytes: int = DEFAULT_MAX_BYTES,
        limit: int = DEFAULT_LIMIT,
        keep: Keep | None = None,
        pick: Pick | None = None,
        run_size: int = RUN_SIZE,
        together: tuple[str, ...] = (),
        memory: RowMemory | None = None,
    ) -> None:
        if not 0 < max_rows < 2**31 or not 0 < max_bytes < 2**30:
            raise UsageError(
                f"max_rows {max_rows} or max_bytes {max_bytes} is outside 1 to 2^31 - 1 or 2^30 - 1."
            )
        self.stop = WalkStop.END
        self.next_position = 0
        self.rows_start = self.rows_end = INT64_MIN  # the first offset of the last batch of rows, and its end
        self._offsets = (start_offset, end_offset - 1)
        self._include_control = include_control
        self._check_crc = check_crc
        self._max_rows, self._max_bytes, self._limit = max_rows, max_bytes, limit
        self._keep, self._pick, self._run_size = keep, pick, run_size
        self._together = together
        self._memory = memory or RowMemory()
        self._rows = self._memory.rows_of(max_rows)

    @abstractmethod
    def _make(self, chunk: RowChunk) -> _Made:
        """What `read` yields for some rows; their memory is used again afterwards."""

    def read(self, buffer: Any, *, start: int = 0, end: int | None = None) -> Iterator[_Made]:
        """The records of buffer[start:end], which holds whole batches.

        A corrupt batch raises CorruptRecordError, after everything before it was returned. A torn tail does
        not: the read ends before it. Afterwards `next_position` and `stop` say where and why it ended.
        """
        data = byte_array(buffer)
        end = data.size if end is None else end
        self._memory.reads_count += 1
        this_read = self._memory.reads_count
        self.next_position, self.stop = start, WalkStop.TABLE_FULL
        while self.stop is WalkStop.TABLE_FULL:
            walk = walk_batches(
                data,
                start=self.next_position,
                end=end,
                table=self._memory.table,
                check_crc=self._check_crc,
                max_size=self._run_size,  # so that the bytes are still in the cache when they are decoded
            )
            for records in self._read_walked(data, walk.headers):
                yield records
                if self._memory.reads_count != this_read:
                    raise UsageError(
                        "another read of this reader, or of one with the same memory, began before "
                        "this one ended. Finish one read first, or use a reader and memory for each."
                    )
            self.next_position, self.stop = walk.next_position, walk.stop
        if self.stop not in (WalkStop.END, WalkStop.TORN_TAIL):
            raise CorruptRecordError(
                explain_stop(data, self.next_position, end, self.stop), position=self.next_position
            )

    def _read_walked(self, data: Bytes, headers: BatchTable) -> Iterator[_Made]:
        good_count, has_control, _, _ = survey(headers, 0)
        good = headers[:good_count]
        kept = None if self._keep is None else self._keep(good)
        wanted = self._wanted(good if kept is None else good[kept], has_control)
        done = 0
        while done < len(wanted):
            run = next_run(data, wanted, done, self._memory.scratch, self._limit)
            yield from self._read_run(run)
            if run.problem is not None:
                raise run.problem
            done += len(run.batches)
        if good_count < len(headers):
            raise wrong_crc(data, headers[good_count])

    def _wanted(self, headers: BatchTable, has_control: bool) -> BatchTable:
        start_offset, last_offset = self._offsets
        drop_control = has_control and not self._include_control
        if not drop_control and (start_offset, last_offset) == (INT64_MIN, INT64_MAX):
            return headers
        keep = np.empty(len(headers), np.bool_)
        count = choose(headers, start_offset, last_offset, drop_control, keep)
        return headers if count == len(headers) else headers[keep]

    def _read_run(self, run: Run) -> Iterator[_Made]:
        decode = decoding.decode_legacy if run.is_legacy else decoding.decode
        records_count, timestamp_type = run_facts(run.batches)
        table = self._rows[: self._even_rows(0 if run.is_legacy else records_count)]
        at, outcome = (0, 0, 0), decoding.MORE
        while outcome == decoding.MORE:
            count, outcome, at = decode(run.data, run.batches, table, at, self._max_bytes, *self._offsets)
            if count:
                rows = self._rows[:count]
                self.rows_start, self.rows_end = int(rows["offset"][0]), int(rows["offset"][-1]) + 1
                picked = None if self._pick is None else self._pick(run.data, rows)
                if picked is not None:
                    rows = rows[picked]
                    if not len(rows):
                        continue
                yield self._make(
                    RowChunk(
                        run.data, rows, run.batches, together=self._together, timestamp_type=timestamp_type
                    )
                )
        if outcome != decoding.DONE:
            raise invalid_record(run.batches[at[0]], outcome)

    def _even_rows(self, total: int) -> int:
        """How many rows to put into each piece of a run, so that no small one is left at its end.

        A consumer that joins small pieces with others would copy all of them. `total` is 0 for legacy
        batches, whose headers do not say how many records they have.
        """
        parts = -(-total // self._max_rows)
        return -(-total // parts) if parts else self._max_rows
