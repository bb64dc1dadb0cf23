"""Rows as lines: the parts of a record that a format names, copied straight from the decoded batches.

A format is a table of steps, one row (kind, start, size) for each part of a line. For TEXT, `start` and
`size` say where its bytes are in `words`; for VALUE and KEY, what to print instead of null.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.limits import MAX_MS
from stratalog.records.kernels.characters import write_number
from stratalog.records.kernels.decode import RecordTable
from stratalog.records.kernels.gather import ArrowOffsets
from stratalog.records.kernels.jit import kernel
from stratalog.records.kernels.memory import Bytes, copy_bytes

# The kinds of steps.
TEXT = 0  # the same bytes in each line
VALUE = 1
KEY = 2
OFFSET = 3  # this and the next three are decimal numbers
TIMESTAMP = 4  # milliseconds
VALUE_SIZE = 5  # -1 for null
KEY_SIZE = 6
PACKED_SIZE = 7  # of the value, as four bytes, most significant first

LONGEST_NUMBER = 20

Steps = NDArray[np.int64]


@kernel(size=lambda _data, rows, steps, *_: 100 * len(rows) * len(steps))
def write_fields(
    data: Bytes, rows: RecordTable, steps: Steps, words: Bytes, ends: ArrowOffsets, out: Bytes
) -> int:
    """Write the line of each row to `out`, which is large enough; returns the bytes written.

    `ends` gets Arrow's n + 1 offsets.
    """
    at = 0
    ends[0] = 0
    for i in range(len(rows)):
        row = rows[i]
        for j in range(len(steps)):
            kind = steps[j, 0]
            position: Any = np.int64(0)
            size: Any = np.int64(-1)
            if kind == VALUE:
                position, size = row.value_position, np.int64(row.value_size)
            elif kind == KEY:
                position, size = row.key_position, np.int64(row.key_size)
            if size >= 0:
                copy_bytes(out, at, data, position, size)
                at += size
            elif kind <= KEY:
                for k in range(steps[j, 1], steps[j, 1] + steps[j, 2]):
                    out[at] = words[k]
                    at += 1
            elif kind == PACKED_SIZE:
                for shift in range(24, -8, -8):
                    out[at] = (row.value_size >> shift) & 0xFF
                    at += 1
            else:
                number: Any = np.int64(row.offset)
                if kind == TIMESTAMP:
                    number = min(max(np.int64(row.timestamp), -MAX_MS), MAX_MS)
                elif kind == VALUE_SIZE:
                    number = np.int64(row.value_size)
                elif kind == KEY_SIZE:
                    number = np.int64(row.key_size)
                at = write_number(out, at, np.int64(number))
        ends[i + 1] = at
    return at
