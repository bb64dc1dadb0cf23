"""Headers are decoded to what Kafka reads, also those of damaged batches."""

from __future__ import annotations

import numpy as np
import pytest

from stratalog.operations.audit.page.headers import DecodedHeader, decode_header
from tests.fixtures.catalog import Partition, partitions
from tests.operations.audit.planting import CRC_AT, MAGIC_AT


def decoded(data: bytes, position: int = 0) -> DecodedHeader | None:
    return decode_header(np.frombuffer(data, np.uint8), position, len(data))


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_a_header_has_what_kafka_reads(partition: Partition) -> None:
    for log in partition.logs:
        data = log.read_bytes()
        for batch in partition.batches(log):
            header = decoded(data[batch["position"] :], batch["position"])

            assert header is not None
            assert (header.position, header.size, header.is_valid) == (batch["position"], batch["size"], True)
            fields = {field.name: field.text for field in header.fields}
            assert fields["magic"] == str(batch["magic"])
            assert fields["crc"] == f"{batch['crc']:#010x}"
            if batch["magic"] == 2:
                assert fields["base_offset"] == str(batch["baseOffset"])
                assert fields["partition_leader_epoch"] == str(batch["partitionLeaderEpoch"])
                assert fields["producer_id"] == str(batch["producerId"])
                assert fields["max_timestamp"].split()[0] == str(batch["maxTimestamp"])
                assert batch["codec"] in fields["attributes"]
                assert ("transactional" in fields["attributes"]) == batch["isTransactional"]


def test_the_bytes_of_a_field_are_named() -> None:
    (log, *_) = partitions("4.3.1", "clean")[0].logs
    header = decoded(log.read_bytes())

    assert header is not None
    places = {field.name: (field.at, field.size) for field in header.fields}
    assert places["magic"] == (MAGIC_AT, 1)
    assert places["crc"] == (CRC_AT, 4)
    assert places["records_count"] == (57, 4)


def test_a_length_that_no_batch_can_have_leads_nowhere() -> None:
    header = decoded(bytes(200))

    assert header is not None
    assert (header.size, header.is_valid) == (None, None)
    assert decoded(bytes(40)) is None
