"""The records of a chunk of batches, run by run, without the batches that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stratalog.limits import INT64_MAX, INT64_MIN
from stratalog.records.compression import DEFAULT_LIMIT, Scratch
from stratalog.records.kernels import decode as decoding
from stratalog.records.kernels.decode import RecordTable
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.walk import BatchTable
from stratalog.records.unpack import Run, invalid_record, next_run
from stratalog.segment.headers import BatchChunk

ROWS = 16384


class Fault(NamedTuple):
    """What is wrong with the batch at this byte of the file."""

    position: int
    reason: str


class Records(NamedTuple):
    """Decoded rows of some batches of a run.

    These rows complete the batches before `batches_end`: no later item has rows of those batches. `fault`
    says what is wrong with the last of those batches, if anything.
    """

    data: Bytes
    batches: BatchTable
    batches_end: int
    rows: RecordTable
    is_first: bool  # the first rows of a run: `batches` is a new table
    fault: Fault | None = None


class RecordReader:
    """Decodes the records of one chunk after the other, into its own memory."""

    def __init__(self) -> None:
        self._scratch = Scratch()
        self._rows = np.zeros(ROWS, decoding.RECORD)

    def read(self, chunk: BatchChunk) -> Iterator[Records]:
        """All records of all batches; each item is valid until the next one is requested."""
        start = 0
        while start < len(chunk.headers):
            # next_run overwrites fields of these header rows, such as the positions of the records.
            run = next_run(chunk.data, chunk.headers, start, self._scratch, DEFAULT_LIMIT)
            if len(run.batches):
                yield from self._decode(run, chunk.position)
            start += len(run.batches)
            if run.problem is not None:
                bad = chunk.headers[start : start + 1]
                fault = Fault(chunk.position + int(bad[0]["position"]), run.problem.reason)
                yield Records(chunk.data, bad, 1, self._rows[:0], True, fault)
                start += 1

    def _decode(self, run: Run, position: int) -> Iterator[Records]:
        decode = decoding.decode_legacy if run.is_legacy else decoding.decode
        at, outcome, is_first = (0, 0, 0), decoding.MORE, True
        while outcome != decoding.DONE:
            count, outcome, at = decode(
                run.data, run.batches, self._rows, at, INT64_MAX, INT64_MIN, INT64_MAX
            )
            batches_end, fault = at[0], None
            if outcome not in (decoding.DONE, decoding.MORE):
                bad = run.batches[at[0]]
                fault = Fault(position + int(bad["position"]), invalid_record(bad, outcome).reason)
                batches_end += 1
                at = (batches_end, 0, 0)
            yield Records(run.data, run.batches, batches_end, self._rows[:count], is_first, fault)
            is_first = False
