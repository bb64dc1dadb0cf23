"""Decoded rows to lines of bytes: one Arrow array for many rows, made in one pass over them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from stratalog.errors import UsageError
from stratalog.limits import INT32_MAX
from stratalog.records.arrays import ArrowOut, RowChunk
from stratalog.records.kernels.gather import KEY as KEYS
from stratalog.records.kernels.gather import VALUE as VALUES
from stratalog.records.kernels.lines import (
    KEY,
    LONGEST_NUMBER,
    PACKED_SIZE,
    TEXT,
    VALUE,
    write_fields,
)

_SUMS = {VALUE: VALUES, KEY: KEYS}


class LineMaker:
    """Makes the lines of rows: for each row all parts, one after the other.

    A part is a pair: one of the kinds of steps in `kernels/lines.py`, which says what to print, and bytes.
    For TEXT these bytes are printed; for VALUE and KEY they are printed instead of null.
    """

    def __init__(self, parts: Sequence[tuple[int, bytes]]) -> None:
        words = b"".join(text for _, text in parts)
        ends = np.cumsum([0, *(len(text) for _, text in parts)])
        steps = [(kind, ends[number], len(text)) for number, (kind, text) in enumerate(parts)]
        self._steps = np.array(steps, np.int64).reshape(-1, 3)
        self._words = np.frombuffer(words, np.uint8).copy()
        self._parts = parts

    def __call__(self, chunk: RowChunk) -> pa.Array:
        """The lines of these rows, as binary values that are never null."""
        count, room = len(chunk.rows), self._room(chunk)
        if room > INT32_MAX:
            raise UsageError(
                f"{count} lines of this format may have {room} bytes, and at most {INT32_MAX} can be printed "
                "at once: print the key or the value only once."
            )
        ends, out = ArrowOut(4 * (count + 1), np.int32), ArrowOut(room)
        write_fields(chunk.data, chunk.rows, self._steps, self._words, ends.array, out.array)
        return pa.Array.from_buffers(pa.binary(), count, [None, ends.buffer, out.buffer], 0)

    def _room(self, chunk: RowChunk) -> int:
        """The most bytes that the lines can have."""
        count, room = len(chunk.rows), 0
        for kind, text in self._parts:
            if kind in _SUMS:
                room += chunk.sums[_SUMS[kind]]
            each = len(text) if kind in (TEXT, VALUE, KEY) else 4 if kind == PACKED_SIZE else LONGEST_NUMBER
            room += count * each
        return int(room)
