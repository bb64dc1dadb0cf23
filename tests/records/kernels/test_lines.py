"""Lines of records: what a format says, and not one byte beside it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stratalog.records.build import Record
from stratalog.records.compression import Codec
from stratalog.records.kernels import lines
from tests.guarded import GuardedBuffer
from tests.records.kernels.test_gather import guarded, rows_of, untouched
from tests.records.strategies import Encoded, v2_batches

LARGEST_MS = (2**63 - 1) // 1000
parts = st.lists(st.tuples(st.integers(lines.TEXT, lines.PACKED_SIZE), st.binary(max_size=5)), max_size=6)


def size_of(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def printed(record: Record, kind: int, text: bytes) -> bytes:
    """A part of a line."""
    return {
        lines.TEXT: text,
        lines.VALUE: text if record.value is None else record.value,
        lines.KEY: text if record.key is None else record.key,
        lines.OFFSET: b"%d" % record.offset,
        lines.TIMESTAMP: b"%d" % min(max(record.timestamp, -LARGEST_MS), LARGEST_MS),
        lines.VALUE_SIZE: b"%d" % size_of(record.value),
        lines.KEY_SIZE: b"%d" % size_of(record.key),
        lines.PACKED_SIZE: size_of(record.value).to_bytes(4, "big", signed=True),
    }[kind]


@given(v2_batches(codec=Codec.NONE), parts)
def test_each_line_has_all_parts_in_order(batch: Encoded, parts: list[tuple[int, bytes]]) -> None:
    rows = rows_of(batch)
    wanted = [b"".join(printed(record, *part) for part in parts) for record in batch.records]
    places = np.cumsum([0, *(len(text) for _, text in parts)])
    steps = np.array(
        [(kind, places[number], len(text)) for number, (kind, text) in enumerate(parts)], np.int64
    ).reshape(-1, 3)
    words = np.frombuffer(bytearray(b"".join(text for _, text in parts) or b" "), np.uint8)
    ends, out = np.zeros(len(rows) + 1, np.int32), guarded(sum(map(len, wanted)))

    for data in GuardedBuffer.holding(batch.data):
        out[:-8] = 0
        written = lines.write_fields(data, rows, steps, words, ends, out)

        assert [out[start:end].tobytes() for start, end in pairwise(ends)] == wanted
        assert written == sum(map(len, wanted))
        assert untouched(out)
