"""Builds a batch of plain values: records without keys and headers, all with the same timestamp.

`build.py` builds the same bytes from columns; tests/records/test_values.py compares them. Here the bytes of
all values are joined, and one kernel writes the records.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stratalog.errors import InvalidBatchError
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
from stratalog.records.kernels.encode import VALUE_OVERHEAD, encode_values, seal
from stratalog.records.kernels.memory import Bytes, byte_array


def build_values(values: Sequence[bytes], timestamp: int) -> Bytes:
    """A batch of these values, at least one, with offsets from 0 on; the timestamp is not negative."""
    count = len(values)
    joined = b"".join(values)
    room = RECORD_BATCH_OVERHEAD + len(joined) + VALUE_OVERHEAD * count
    if room > INT32_MAX:
        raise InvalidBatchError(f"{count} values of {len(joined)} bytes are too much for one batch.")
    sizes = np.fromiter(map(len, values), np.int64, count)
    out = np.empty(room, np.uint8)
    size = encode_values(byte_array(joined), sizes, out, RECORD_BATCH_OVERHEAD)
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
