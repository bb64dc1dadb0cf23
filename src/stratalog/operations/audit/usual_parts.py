"""Audits the parts of a segment in which nothing is wrong, in one pass of a kernel.

Nearly every part of nearly every segment is like that. The kernel checks what `RowChecks`, `OffsetEntries`
and `TimeEntries` check, and hands its results to these three. If anything in a part is wrong, or unusual such
as a batch of an old format, the results for that part are dropped. The slow form, which can say what is
wrong, then audits the part and the rest of the segment. Why: docs/decisions/0040-audit-in-one-pass.md
"""

from __future__ import annotations

import threading
import zlib
from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratalog.buffers import aligned_buffer
from stratalog.limits import INT64_MAX
from stratalog.operations.audit.ahead import MOST_AHEAD
from stratalog.operations.audit.index_entries import OffsetEntries, TimeEntries
from stratalog.operations.audit.rows import BACKWARD_MS, MOST_GAPS, RowChecks
from stratalog.records.kernels import audit as kernel
from stratalog.records.kernels.memory import Bytes
from stratalog.records.walk import Walk, WalkStop, new_table, walk_batches

# The slow form makes some 200 calls for each part, so parts are large: 8 MiB, or this many batches.
CHUNK_SIZE = 8 << 20
TABLE_ROWS = 16384
AFTER_SIZE = 64 << 10  # of a read of the batches after a part
_FIELDS = kernel.FACTS.names or ()
_NOTHING: NDArray[np.int64] = np.empty(0, np.int64)


class _Memory(threading.local):
    """The memory of one reader, which its next segment reuses: reading into new memory is slower."""

    def __init__(self) -> None:
        self.buffer = aligned_buffer(CHUNK_SIZE)
        self.buffer_after = aligned_buffer(AFTER_SIZE)
        self.table = new_table(TABLE_ROWS)
        self.sums = np.empty(TABLE_ROWS, np.uint32)
        self.gaps = np.empty((MOST_GAPS, 2), np.int64)


memory = _Memory()


class _Start(NamedTuple):
    """The start of a part, and the numbers of batches and gaps before it."""

    position: int
    batches_count: int
    gaps_count: int


class UsualParts:
    """The parts of one segment, up to the first that is unusual. `digest` is the checksum of checksums."""

    def __init__(
        self, rows: RowChecks, offsets: OffsetEntries | None, times: TimeEntries | None, digest: int
    ) -> None:
        self._rows, self._offsets, self._times, self.digest = rows, offsets, times, digest
        self._entries = (
            *((_NOTHING, _NOTHING) if offsets is None else offsets.columns),
            *((_NOTHING, _NOTHING) if times is None else times.columns),
        )
        self._facts = np.zeros(1, kernel.FACTS)
        rows.give_facts(self._facts[0])
        next_base = INT64_MAX if rows.next_base is None else rows.next_base
        self._limits = (rows.base_offset, next_base, rows.latest_ms, BACKWARD_MS)
        self._starts: deque[_Start] = deque()  # of the last parts
        self.is_over = not all(part is None or part.is_sorted for part in (offsets, times))

    def walk(self, data: Bytes, start: int, end: int, position: int, *, needs_rows: bool) -> Walk | None:
        """Check the batches of data[start:end], which begins at byte `position` of the file; None if unusual.

        The walk has rows only if they are needed: by the caller (`needs_rows`), or because a batch has a
        producer id or begins a leader epoch.
        """
        before = _Start(position + start, self._rows.batches_count, self._rows.gaps_count)
        self._facts["needs_rows"] = needs_rows
        count, next_position, stop = kernel.check(
            data, start, end, position, self._limits, self._entries, self._facts, memory.gaps, memory.sums
        )
        if stop == kernel.UNUSUAL:
            self.is_over = True
            return None
        self._hand_over()
        self._starts.append(before)
        while (
            len(self._starts) > 1 and self._rows.batches_count - self._starts[1].batches_count >= MOST_AHEAD
        ):
            self._starts.popleft()
        self.digest = zlib.crc32(memory.sums[:count].data, self.digest)
        if self._facts["needs_rows"][0]:
            return walk_batches(data, start=start, end=end, table=memory.table, check_crc=False)
        return Walk(headers=memory.table[:0], next_position=next_position, stop=WalkStop(stop))

    @property
    def gapped_start(self) -> int | None:
        """Where the last parts begin whose batches may be ahead of those after them; None if none can be.

        These parts have at least `MOST_AHEAD` batches together, or all so far. A batch that is ahead follows
        a gap.
        """
        if not self._starts or self._rows.gaps_count == self._starts[0].gaps_count:
            return None
        return self._starts[0].position

    def _hand_over(self) -> None:
        """Bring the slow form to where the kernel is."""
        facts = dict(zip(_FIELDS, self._facts.item(), strict=True))
        self._rows.take_facts(facts, memory.gaps)
        if self._offsets is not None:
            self._offsets.go_on(facts["next_entry"], facts["waiting_entry"])
        if self._times is not None:
            self._times.go_on(facts["next_time_entry"], facts["max_timestamp"])
