"""What a leader sets in a batch, against the same fields set one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stratalog.records.batch import (
    TimestampType,
    set_last_offset,
    set_max_timestamp,
    set_partition_leader_epoch,
)
from stratalog.records.kernels.validate import stamp_batch
from stratalog.records.walk import walk_batches
from tests.records.changing import changed
from tests.records.golden import TWO_RECORDS


@given(
    st.integers(0, 2**62),
    st.integers(-1, 2**31 - 1),
    st.sampled_from(TimestampType).filter(lambda kind: kind >= 0),
    st.integers(-1, 2**62),
    st.integers(0, 2**7 - 1).map(lambda bits: bits & ~7),
)
def test_a_stamped_batch_is_one_whose_fields_were_set_one_by_one(
    last_offset: int, epoch: int, kind: TimestampType, max_timestamp: int, attributes: int
) -> None:
    batch = changed(TWO_RECORDS, attributes=attributes)
    expected = bytearray(batch)
    set_last_offset(expected, last_offset)
    set_partition_leader_epoch(expected, epoch)
    set_max_timestamp(expected, kind, max_timestamp)

    data = np.frombuffer(bytearray(batch), np.uint8)
    rows = walk_batches(data).headers
    is_append_time = kind is TimestampType.LOG_APPEND_TIME
    stamp_batch(data, rows, last_offset, epoch, is_append_time, max_timestamp)

    assert data.tobytes() == expected
    assert rows[0].item() == walk_batches(expected).headers[0].item()
