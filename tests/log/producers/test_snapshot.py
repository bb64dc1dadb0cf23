"""A snapshot's bytes: Kafka's both ways, and what is wrong with damaged ones."""

from __future__ import annotations

import pytest

from stratalog.errors import CorruptSnapshotError
from stratalog.log.producers.entry import ProducerStateEntry
from stratalog.log.producers.snapshot import build_snapshot, parse_snapshot
from stratalog.records.kernels.crc32c import crc32c
from stratalog.records.kernels.memory import byte_array
from stratalog.segment.producers import BatchMetadata
from tests.fixtures.catalog import Partition, partitions
from tests.log.producing import EMPTY, TWO

TWO_INSIDE = [
    ProducerStateEntry(1, producer_epoch=0, last_timestamp=1000, batches=[BatchMetadata(5, 10, 2, 1000)]),
    ProducerStateEntry(
        73, producer_epoch=13, coordinator_epoch=347, last_timestamp=2000, current_txn_first_offset=42
    ),
]
THREE = bytes.fromhex(
    "00012f4feb0e0000000300000000000000070004ffffffffffffffffffffffff0000000000000000000007d000000001ffffffff"
    "ffffffff000000000000000800000000000700000000000000060000000200000000000003eeffffffffffffffffffffffff0000"
    "00000000000900000000000000000000000000070000000000000000000003efffffffff0000000000000007"
)
THREE_INSIDE = [
    ProducerStateEntry(7, producer_epoch=4, coordinator_epoch=1, last_timestamp=2000),
    ProducerStateEntry(8, producer_epoch=0, last_timestamp=1006, batches=[BatchMetadata(7, 6, 2, 1006)]),
    ProducerStateEntry(
        9,
        producer_epoch=0,
        last_timestamp=1007,
        current_txn_first_offset=7,
        batches=[BatchMetadata(0, 7, 0, 1007)],
    ),
]


@pytest.mark.parametrize(("data", "inside"), [(EMPTY, []), (TWO, TWO_INSIDE), (THREE, THREE_INSIDE)])
def test_kafkas_snapshots_are_read_and_written_byte_for_byte(
    data: bytes, inside: list[ProducerStateEntry]
) -> None:
    assert parse_snapshot(data) == inside
    assert build_snapshot(inside) == data


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_every_snapshot_of_a_broker_reads_as_the_dump_tool_prints_it(partition: Partition) -> None:
    printed: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in partition.dump.read_text().splitlines():
        if line.startswith("Dumping "):
            lines = printed.setdefault(line.rpartition("/")[2], [])
        else:
            lines.append(line)

    for path in partition.path.glob("*.snapshot"):
        data = path.read_bytes()
        entries = parse_snapshot(data)
        assert [_as_dumped(entry) for entry in entries] == printed[path.name]
        assert build_snapshot(entries) == data


def _as_dumped(entry: ProducerStateEntry) -> str:
    first = entry.current_txn_first_offset
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: "
        f"{'OptionalLong.empty' if first is None else f'OptionalLong[{first}]'} "
        f"lastTimestamp: {entry.last_timestamp}"
    )
    for batch in entry.batches:
        line += (
            f" firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} "
            f"lastOffset: {batch.last_offset} offsetDelta: {batch.offset_delta} timestamp: {batch.timestamp}"
        )
    return line


def _with_crc(data: bytearray) -> bytes:
    data[2:6] = int(crc32c(byte_array(data), 6, len(data))).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "has 0 bytes"),
        (TWO[:9], "has 9 bytes"),
        (TWO[:-1], "has room for 1"),
        (TWO + b"\0", "CRC-32C"),
        (TWO[:20] + b"\xff" + TWO[21:], "CRC-32C"),
        (_with_crc(bytearray(b"\0\2" + TWO[2:])), "version is 2"),
        (_with_crc(bytearray(TWO[:6] + b"\xff" * 4 + TWO[10:])), "announces -1"),
        (_with_crc(bytearray(TWO[:6] + b"\x7f" * 4 + TWO[10:])), "has room for 2"),
    ],
)
def test_a_damaged_snapshot_says_what_is_wrong(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptSnapshotError, match=reason):
        parse_snapshot(data)
