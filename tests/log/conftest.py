"""Bytes that only an older Kafka writes, a lone log, and a machine for small segments."""

from __future__ import annotations

import pytest

from stratalog.records.reader import read_batches
from tests.fixtures.catalog import partitions
from tests.log.api.opened import directory, log
from tests.log.model import Machine
from tests.log.segmented import SET_SIZE

__all__ = ["directory", "log", "machine", "message_v1"]


@pytest.fixture
def message_v1() -> bytes:
    """A message of format v1 that a 2.8.2 broker wrote, moved to offset 1, which its CRC does not cover."""
    (partition,) = [p for p in partitions() if (p.release, p.state, p.name) == ("2.8.2", "clean", "v1-0")]
    data = partition.logs[0].read_bytes()
    first = next(b for b in read_batches(data) if b.facts.magic == 1 and not b.facts.attributes & 7)
    return (1).to_bytes(8, "big") + bytes(first.raw)[8:]


@pytest.fixture
def machine() -> Machine:
    """Five records to a segment; see `segmented.py`."""
    return Machine(
        internal_segment_bytes=5 * SET_SIZE,
        index_interval_bytes=1,
        file_delete_delay_ms=1000,
        segment_index_bytes=1000,
    )
