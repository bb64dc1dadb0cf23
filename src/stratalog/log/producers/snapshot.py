"""A `.snapshot` file: the state of all producers at the offset in its name.

at  size  field
 0     2  version                    always 1
 2     4  crc                        CRC-32C of everything from `count` to the end of the file
 6     4  count
10        entries of 46 bytes, in no order
          0   8  producer_id
          8   2  producer_epoch
         10   4  last_sequence              -1: no batch is known
         14   8  last_offset                -1: no batch is known
         22   4  offset_delta               last minus first offset of that batch; 0: no batch is known
         26   8  timestamp
         34   4  coordinator_epoch          -1: no marker was seen
         38   8  current_txn_first_offset   -1: no transaction is open

The file has only the newest batch of each producer. So after a restart, an older batch that is sent again is
refused as out of order, and not recognised as a duplicate. Kafka: ProducerStateManager.readSnapshot,
writeSnapshot
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from stratalog.errors import CorruptSnapshotError
from stratalog.log.producers.entry import NO_OFFSET, ProducerStateEntry
from stratalog.records.kernels.crc32c import crc32c
from stratalog.records.kernels.memory import byte_array
from stratalog.segment.producers import BatchMetadata

SNAPSHOT_VERSION = 1
_HEADER = struct.Struct(">h I i")
_ENTRY = struct.Struct(">q h i q i q i q")
HEADER_SIZE = 10
ENTRY_SIZE = 46
CRC_COVERS_FROM = 6
assert _HEADER.size == HEADER_SIZE
assert _ENTRY.size == ENTRY_SIZE
# A recovery builds and reads several snapshots for each segment, and those of most logs have no producers.
WITHOUT_PRODUCERS = _HEADER.pack(SNAPSHOT_VERSION, 0x48674BC7, 0)


def build_snapshot(entries: Iterable[ProducerStateEntry]) -> bytes:
    """The bytes of a snapshot with these producers, in this order."""
    packed = [
        _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_data_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            NO_OFFSET if entry.current_txn_first_offset is None else entry.current_txn_first_offset,
        )
        for entry in entries
    ]
    if not packed:
        return WITHOUT_PRODUCERS
    covered = len(packed).to_bytes(4, "big") + b"".join(packed)
    return _HEADER.pack(SNAPSHOT_VERSION, _crc(covered), len(packed)) + covered[4:]


def parse_snapshot(data: bytes) -> list[ProducerStateEntry]:
    """The producers in the order of the file; CorruptSnapshotError if Kafka would not load it."""
    if data == WITHOUT_PRODUCERS:
        return []
    if len(data) < HEADER_SIZE:
        raise CorruptSnapshotError(
            f"it has {len(data)} bytes; a snapshot without producers has {HEADER_SIZE}."
        )
    version, crc, count = _HEADER.unpack_from(data)
    if count < 0 or count > (len(data) - HEADER_SIZE) // ENTRY_SIZE:
        raise CorruptSnapshotError(
            f"it announces {count} producers, but has room for {(len(data) - HEADER_SIZE) // ENTRY_SIZE}."
        )
    if version != SNAPSHOT_VERSION:
        raise CorruptSnapshotError(
            f"its version is {version}; Kafka has only ever written version {SNAPSHOT_VERSION}."
        )
    computed = _crc(data[CRC_COVERS_FROM:])
    if computed != crc:
        raise CorruptSnapshotError(f"its CRC-32C is {computed:#010x}, its header says {crc:#010x}.")
    entries = data[HEADER_SIZE : HEADER_SIZE + count * ENTRY_SIZE]
    return [_entry(*fields) for fields in _ENTRY.iter_unpack(entries)]


def _entry(
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    current_txn_first_offset: int,
) -> ProducerStateEntry:
    batches = [BatchMetadata(last_sequence, last_offset, offset_delta, timestamp)] if last_offset >= 0 else []
    return ProducerStateEntry(
        producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        last_timestamp=timestamp,
        current_txn_first_offset=current_txn_first_offset if current_txn_first_offset >= 0 else None,
        batches=batches,
    )


def _crc(data: bytes) -> int:
    return int(crc32c(byte_array(data), 0, len(data)))
