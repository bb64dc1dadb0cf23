"""The checked-in dumps are still what Kafka prints for the fixtures."""

from __future__ import annotations

import pytest

from tests.fixtures.catalog import Partition, partitions
from tests.kafka.oracle import RecordsOracle


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_the_checked_in_records_are_those_that_kafka_decodes(
    oracle: RecordsOracle, partition: Partition
) -> None:
    for file in partition.logs + partition.checkpoints:
        decoded = [{"file": file.name} | batch for batch in oracle.decode(file.read_bytes())]

        assert decoded == list(partition.batches(file))
