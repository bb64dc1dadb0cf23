"""The journal of a write, damaged by somebody."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stratalog.directory.pending_write import finish_pending_write
from stratalog.directory.write_journal import (
    Journal,
    PartitionWrite,
    PendingWrite,
    StagedSegment,
    format_journal,
    has_pending_write,
    parse_journal,
)
from stratalog.errors import CorruptCheckpointError
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import SimulatedDisk

STAGED = "stratalog-write-5f0c-0-0"


def document() -> dict[str, Any]:
    segment = StagedSegment(staged=STAGED, base_offset=0, size=1, records_count=1)
    write = PartitionWrite(
        topic_partition=TopicPartition("orders", 0),
        topic_id=None,
        is_new=True,
        previous=None,
        segments=(segment,),
    )
    found: dict[str, Any] = json.loads(
        format_journal(Journal(pending=PendingWrite(write="5f0c", partitions=(write,))))
    )
    return found


@pytest.mark.parametrize("topic", ["../../outside", "/outside", "a/b", "", "a\0b"])
def test_a_journal_makes_no_partition_outside_of_its_directory(topic: str) -> None:
    damaged = document()
    damaged["pending"]["partitions"][0]["topic"] = topic
    disk = SimulatedDisk.of(
        {"/data/stratalog-write.json": json.dumps(damaged).encode(), f"/data/{STAGED}.log": b"x"}
    )

    with pytest.raises(CorruptCheckpointError, match="keep them"):
        finish_pending_write(disk, "/data")

    assert f"/data/{STAGED}.log" in disk.contents()


@pytest.mark.parametrize("staged", ["../outside", "/outside", "orders-0", "stratalog-write-/../../x"])
def test_a_journal_takes_no_file_that_is_not_staged(staged: str) -> None:
    damaged = document()
    damaged["pending"]["partitions"][0]["segments"][0]["staged"] = staged

    with pytest.raises(CorruptCheckpointError, match="name of a"):
        parse_journal(json.dumps(damaged).encode(), "journal")


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"version": 1e999', b'{"version": 0, "pending": 1e999}'])
def test_a_journal_that_no_parser_gets_through_counts_as_pending(data: bytes) -> None:
    assert has_pending_write(SimulatedDisk.of({"/data/stratalog-write.json": data}), "/data")


def test_numbers_that_are_no_offsets_are_damage() -> None:
    for number in (-1, 2**63, 1e999):
        damaged = document()
        damaged["pending"]["partitions"][0]["segments"][0]["base_offset"] = number
        with pytest.raises(CorruptCheckpointError):
            parse_journal(json.dumps(damaged).encode(), "journal")
