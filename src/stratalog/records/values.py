"""Builds a batch of plain values: records without keys and headers, all with the same timestamp.

`build.py` builds the same bytes from columns; tests/records/test_values.py compares them. In `build.py` most
of the time goes into Python's objects: joining their bytes, and getting the size of each. `marshal` writes
the sizes and bytes of a whole list in half the time, and one kernel turns its output into records.
"""

from __future__ import annotations

import marshal

import numpy as np

from stratalog.limits import INT32_MAX
from stratalog.records.batch import (
    LOG_OVERHEAD,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
)
from stratalog.records.kernels.encode import NOT_WRITTEN, VALUE_OVERHEAD, encode_dumped, seal
from stratalog.records.kernels.memory import Bytes, byte_array

_DUMP_VERSION = 2  # later versions write a reference if the same object is in the list twice


def build_values(values: list[bytes], timestamp: int) -> Bytes | None:
    """A batch of these values (at least one), with offsets from 0 on; the timestamp must not be negative.

    None if they are too large for a batch, or if this Python's `marshal` writes another format.
    """
    count = len(values)
    try:
        dump = byte_array(marshal.dumps(values, _DUMP_VERSION))
    except ValueError:  # a value of 2 GiB
        return None
    room = RECORD_BATCH_OVERHEAD + len(dump) + VALUE_OVERHEAD * count
    if room > INT32_MAX:
        return None
    out = np.empty(room, np.uint8)
    size = encode_dumped(dump, count, out, RECORD_BATCH_OVERHEAD)
    if size == NOT_WRITTEN:
        return None
    header = BatchHeader(
        base_offset=0,
        batch_length=size - LOG_OVERHEAD,
        partition_leader_epoch=NO_PARTITION_LEADER_EPOCH,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        records_count=count,
    )
    batch = out[:size]
    batch.data[:RECORD_BATCH_OVERHEAD] = header.pack()
    seal(batch)
    return batch
