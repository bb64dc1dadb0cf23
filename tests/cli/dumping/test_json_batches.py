"""`stratalog dump --json`: one object a line, with what Kafka's record classes found in the same file."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.cli.dumps import dump, objects
from tests.fixtures.catalog import Partition, log_dirs, partitions

Capture = pytest.CaptureFixture[bytes]
CLEAN = log_dirs("4.3.1", "clean")[0]


def raw(field: Any) -> str | None:
    """A key or value of the dump in hex, as the fixtures have it."""
    if field is None:
        return None
    return (base64.b64decode(field["base64"]) if isinstance(field, dict) else field.encode()).hex()


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_batches_and_records_are_those_that_kafka_reads(partition: Partition, capsysbinary: Capture) -> None:
    for file in partition.logs + partition.checkpoints:
        dumped = dump(capsysbinary, "--json", "--print-data-log", file)

        found = objects(dumped.out)
        batches = [item for item in found if item["type"] == "batch"]
        records = [item for item in found if item["type"] == "record"]
        expected = list(partition.batches(file))
        assert [batch["last_offset"] for batch in batches] == [batch["lastOffset"] for batch in expected]
        assert [batch["is_valid"] for batch in batches] == [True] * len(expected)
        told = [record for batch in expected for record in batch["records"]]
        assert [record["offset"] for record in records] == [record["offset"] for record in told]
        assert [record["timestamp"] for record in records] == [record["timestamp"] for record in told]
        for record, kafka in zip(records, told, strict=True):
            if "control" not in record:
                assert (raw(record["key"]), raw(record["value"])) == (kafka["key"], kafka["value"])


def test_positions_lead_from_batch_to_batch(capsysbinary: Capture) -> None:
    file = CLEAN / "txn-0" / "00000000000000000006.log"

    batches = [item for item in objects(dump(capsysbinary, "--json", file).out) if item["type"] == "batch"]

    position = 0
    for batch in batches:
        assert batch["position"] == position
        position += batch["size"]
    assert position == file.stat().st_size


def test_decoded_records_are_json_inside_json(capsysbinary: Capture) -> None:
    file = CLEAN / "__consumer_offsets-0" / "00000000000000000000.log"

    found = objects(dump(capsysbinary, "--json", "--offsets-decoder", file).out)

    records = [item for item in found if item["type"] == "record" and "control" not in item]
    assert {record["key"]["type"] for record in records} <= {str(number) for number in range(20)}
    assert all(record["value"] == "<DELETE>" or "data" in record["value"] for record in records)
