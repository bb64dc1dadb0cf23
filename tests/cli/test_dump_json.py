"""`stratalog dump --json`: one object a line, with what Kafka's record classes found in the same file."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.dumping import dump
from tests.fixtures.catalog import Partition, log_dirs, partitions

Capture = pytest.CaptureFixture[bytes]
CLEAN = log_dirs("4.3.1", "clean")[0]


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.split("\n") if line]


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


def test_complaints_are_json_on_stderr(tmp_path: Path, capsysbinary: Capture) -> None:
    log = tmp_path / "00000000000000000020.log"
    shutil.copy(CLEAN / "rolled-0" / log.name, log)
    with log.open("ab") as file:
        file.write(bytes(100))

    dumped = dump(capsysbinary, "--json", log)

    size = log.stat().st_size - 100
    assert objects(dumped.out)[-1] == {
        "type": "invalid_bytes",
        "path": str(log),
        "position": size,
        "size": 100,
    }
    [complaint] = objects(dumped.err)
    assert (complaint["complaint"], complaint["position"]) == ("unreadable", size)
    assert dumped.status == 1


def test_every_line_of_a_whole_directory_is_json(capsysbinary: Capture) -> None:
    dumped = dump(capsysbinary, "--json", "--print-data-log", CLEAN)

    types = {item["type"] for item in objects(dumped.out)}
    assert types == {
        "aborted_transaction",
        "batch",
        "clean_shutdown",
        "empty_index",
        "file",
        "leader_epoch",
        "offset_index_entry",
        "partition_offset",
        "producer",
        "property",
        "record",
        "time_index_entry",
    }


def test_each_line_says_which_file_it_is_of(capsysbinary: Capture) -> None:
    """Offsets of two partitions look alike: without its file nobody can tell a line's place."""
    folders = [CLEAN / "txn-0", CLEAN / "rolled-0"]

    found = objects(dump(capsysbinary, "--json", "--print-data-log", *folders).out)

    assert len({item["type"] for item in found}) > 5
    files = [item["path"] for item in found if item["type"] == "file"]
    assert {Path(path).parent for path in files} == set(folders)
    path = ""
    for item in found:
        path = item["path"] if item["type"] == "file" else path
        assert item["path"] == path
