"""aiokafka and kafka-python as peers, with one interface to build and to read batches.

aiokafka's record classes are the compiled ones where its wheel has them, kafka-python's are plain Python.
Both were written after Kafka's Java, and neither shares a line with Stratalog.
"""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

import cramjam
from aiokafka.record import default_records as aiokafka_default
from aiokafka.record import legacy_records as aiokafka_legacy
from aiokafka.record import memory_records as aiokafka_memory

from stratalog.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from stratalog.records.build import Record
from stratalog.records.compression import Codec

with warnings.catch_warnings():
    # kafka-python loads its schemas by a function that Python 3.11 calls deprecated, and later ones do not.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.codec
    from kafka.record import default_records as kafka_default
    from kafka.record import legacy_records as kafka_legacy
    from kafka.record import memory_records as kafka_memory

if kafka.codec.snappy is None:
    # kafka-python asks for python-snappy, which is a thin wrapper of cramjam's raw blocks; the xerial framing
    # around them is kafka-python's own.
    kafka.codec.snappy = SimpleNamespace(
        compress=lambda data: bytes(cramjam.snappy.compress_raw(data)),
        decompress=lambda data: bytes(cramjam.snappy.decompress_raw(data)),
    )

ROOM = 1 << 24  # far above any batch here: the builders refuse records beyond their batch size


class Producer(NamedTuple):
    """Who wrote a batch, and what number its first record has among that producer's."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False


class PeerBatch(NamedTuple):
    """The facts of a v2 batch by a peer; None for what it does not report."""

    magic: int
    base_offset: int
    next_offset: int
    first_timestamp: int
    max_timestamp: int
    attributes: int
    codec: int
    timestamp_type: int
    is_control: bool
    producer: Producer
    crc: int
    leader_epoch: int | None
    records_count: int | None
    last_sequence: int | None
    records: list[Record]


class Peer(Protocol):
    """Another implementation of Kafka's record formats."""

    name: str

    def build(
        self, codec: Codec, records: Sequence[Record], base_offset: int, producer: Producer
    ) -> bytearray:
        """A v2 batch as its producer sends it: the offsets count from 0."""
        ...

    def read(self, batch: bytes) -> PeerBatch:
        """A v2 batch, its checksum checked."""
        ...

    def build_legacy(self, magic: int, codec: Codec, records: Sequence[Record]) -> bytearray:
        """A v0 or v1 message set with the records' own offsets; compressed, the wrapper has offset 0."""
        ...

    def read_legacy(self, messages: bytes) -> list[Record]:
        """A v0 or v1 message set; a v0 message has no timestamp, which is -1 here."""
        ...


class _Peer:
    """What both have in common: kafka-python's modules are older, and aiokafka's grew out of them."""

    def __init__(self, name: str, default: Any, legacy: Any, memory: Any) -> None:
        self.name = name
        self._default, self._legacy, self._memory = default, legacy, memory

    def __repr__(self) -> str:
        return self.name

    def build(
        self, codec: Codec, records: Sequence[Record], base_offset: int, producer: Producer
    ) -> bytearray:
        builder = self._default.DefaultRecordBatchBuilder(
            magic=2,
            compression_type=int(codec),
            is_transactional=producer.is_transactional,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=producer.base_sequence,
            batch_size=ROOM,
        )
        for record in records:
            added = builder.append(
                record.offset - base_offset, record.timestamp, record.key, record.value, list(record.headers)
            )
            assert added is not None
        return bytearray(builder.build())

    def read(self, batch: bytes) -> PeerBatch:
        found = self._default.DefaultRecordBatch(batch)
        assert found.validate_crc()
        return PeerBatch(
            magic=found.magic,
            base_offset=found.base_offset,
            next_offset=found.next_offset,
            first_timestamp=found.first_timestamp,
            max_timestamp=found.max_timestamp,
            attributes=found.attributes,
            codec=found.compression_type,
            timestamp_type=found.timestamp_type,
            is_control=found.is_control_batch,
            producer=Producer(
                found.producer_id, found.producer_epoch, found.base_sequence, found.is_transactional
            ),
            crc=found.crc,
            leader_epoch=getattr(found, "leader_epoch", None),
            records_count=getattr(found, "records_count", None),
            last_sequence=getattr(found, "last_sequence", None),
            records=[
                Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
                for record in found
            ],
        )

    def build_legacy(self, magic: int, codec: Codec, records: Sequence[Record]) -> bytearray:
        builder = self._legacy.LegacyRecordBatchBuilder(
            magic=magic, compression_type=int(codec), batch_size=ROOM
        )
        for record in records:
            added = builder.append(
                record.offset, timestamp=record.timestamp, key=record.key, value=record.value
            )
            assert added is not None
        return bytearray(builder.build())

    def read_legacy(self, messages: bytes) -> list[Record]:
        return list(self._messages(messages))

    def _messages(self, messages: bytes) -> Iterator[Record]:
        entries = self._memory.MemoryRecords(messages)
        while entries.has_next():
            entry = entries.next_batch()
            assert entry.validate_crc()
            for message in entry:
                timestamp = -1 if message.timestamp is None else message.timestamp
                yield Record(message.offset, timestamp, message.key, message.value)


AIOKAFKA: Peer = _Peer("aiokafka", aiokafka_default, aiokafka_legacy, aiokafka_memory)
KAFKA_PYTHON: Peer = _Peer("kafka-python", kafka_default, kafka_legacy, kafka_memory)
PEERS = (AIOKAFKA, KAFKA_PYTHON)


def set_wrapper_offset(wrapper: bytearray, offset: int) -> None:
    """What a broker does with a compressed set on append; the CRC does not cover the offset."""
    struct.pack_into(">q", wrapper, 0, offset)


def set_wrapper_append_time(wrapper: bytearray, timestamp: int) -> None:
    """Make a v1 wrapper LogAppendTime, as a broker with that setting does."""
    wrapper[17] |= 1 << 3
    struct.pack_into(">q", wrapper, 18, timestamp)
    struct.pack_into(">I", wrapper, 12, zlib.crc32(memoryview(wrapper)[16:]))
