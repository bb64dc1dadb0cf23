"""The first record at or after a time, in a window of a log that was read at once.

What a look-up finds is nearly always a few batches behind the place an index points at, plain and v2: then
one call does it all. Anything else is left to the readers that know all formats, from its batch on.
"""

from __future__ import annotations

from typing import Any

from stratalog.records.kernels.decode import MORE, RecordTable, decode
from stratalog.records.kernels.index import FOUND, TIMESTAMP_AT_LEAST, seek
from stratalog.records.kernels.jit import kernel
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.walk import CODEC_MASK, BatchTable

INT64_MAX = 2**63 - 1


@kernel
def find_record(
    data: Bytes, filled: int, timestamp: int, start_offset: int, found: BatchTable, rows: RecordTable
) -> tuple[bool, int, Any, Any, Any]:
    """The first record from start_offset on that is not before the timestamp, in data[:filled].

    A batch starts at data[0]. `found` (one row) and `rows` are scratch. Returns (True, position of its batch,
    timestamp, offset, leader epoch); or (False, position, 0, 0, 0) where the batch at this position must be
    looked at in another way: it is not all here, compressed, of an old format or broken.
    """
    position = 0
    while True:
        window = data[position:filled]
        outcome, at, _ = seek(window, len(window), len(window), TIMESTAMP_AT_LEAST, timestamp, found)
        batch: Any = found[0]
        if outcome != FOUND or batch.magic != 2 or batch.attributes & CODEC_MASK != 0:
            return False, position + at, 0, 0, 0
        # A batch below start_offset may have the timestamp, and then none of its records will do.
        if batch.last_offset >= start_offset:
            here = (0, 0, 0)
            problem = MORE
            while problem == MORE:
                count, problem, here = decode(window, found, rows, here, INT64_MAX, start_offset, INT64_MAX)
                for i in range(count):
                    row: Any = rows[i]
                    if row.timestamp >= timestamp:
                        return True, position + at, row.timestamp, row.offset, batch.partition_leader_epoch
            if problem != 0:
                return False, position + at, 0, 0, 0
        position += at + batch["size"]  # by name: a NumPy scalar has a `size` of its own, which is 1
