"""Header of a record batch, magic 2: the first 61 bytes of a batch, on disk and on the wire.

at  size  field
 0     8  base_offset
 8     4  batch_length             bytes that follow this field
12     4  partition_leader_epoch   outside the CRC, so that a leader can set it without recomputing
16     1  magic                    at the same place in v0 and v1
17     4  crc                      CRC-32C of everything from `attributes` on
21     2  attributes               bits 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 horizon
23     4  last_offset_delta        kept by compaction, so it may be more than records_count - 1
27     8  base_timestamp           or the delete horizon, if attribute bit 6 is set
35     8  max_timestamp
43     8  producer_id              -1: none
51     2  producer_epoch
53     4  base_sequence
57     4  records_count
61        records, as one compressed block if there is a codec

Kafka: DefaultRecordBatch.java
"""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag
from typing import NamedTuple, Self

from stratalog.buffers import Buffer
from stratalog.errors import CorruptRecordError, InvalidBatchError
from stratalog.limits import INT32_MAX
from stratalog.records.compression import Codec
from stratalog.records.kernels.crc32c import crc32c
from stratalog.records.kernels.memory import byte_array

_LAYOUT = struct.Struct(">q i i b I h i q q q h i i")
RECORD_BATCH_OVERHEAD = 61
LOG_OVERHEAD = 12  # base_offset and batch_length: all a scan needs to find the next batch
CRC_AT, ATTRIBUTES_AT, LAST_OFFSET_DELTA_AT, MAX_TIMESTAMP_AT = 17, 21, 23, 35
PARTITION_LEADER_EPOCH_AT = 12
assert _LAYOUT.size == RECORD_BATCH_OVERHEAD

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_PARTITION_LEADER_EPOCH = -1


class TimestampType(IntEnum):
    """Kafka's numbers for the timestamp types; a v0 message has NO_TIMESTAMP_TYPE."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Attributes(IntFlag):
    """The bits of a batch's attributes above its codec."""

    LOG_APPEND_TIME = 1 << 3
    TRANSACTIONAL = 1 << 4
    CONTROL = 1 << 5
    DELETE_HORIZON = 1 << 6


class BatchHeader(NamedTuple):
    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @classmethod
    def unpack(cls, buffer: Buffer, position: int = 0) -> Self:
        """The header at `position`; CorruptRecordError if the buffer is too short for one."""
        _check_header(buffer, position)
        return cls._make(_LAYOUT.unpack_from(buffer, position))

    def pack(self) -> bytes:
        try:
            return _LAYOUT.pack(*self)
        except struct.error as error:
            raise InvalidBatchError(
                f"{self}: a field does not fit its place in a batch header ({error})."
            ) from None

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """-1 without a sequence; numbers wrap from 2^31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & INT32_MAX

    @property
    def codec(self) -> Codec:
        return Codec.from_attributes(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType(bool(self.attributes & Attributes.LOG_APPEND_TIME))

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & Attributes.TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & Attributes.CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers in this batch may be removed.

        Compaction stores it in base_timestamp.
        """
        return self.base_timestamp if self.attributes & Attributes.DELETE_HORIZON else None


def attributes_of(
    codec: Codec,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    *,
    is_transactional: bool = False,
    is_control: bool = False,
    has_delete_horizon: bool = False,
) -> int:
    """The attribute bits. Kafka: DefaultRecordBatch.computeAttributes."""
    if timestamp_type is TimestampType.NO_TIMESTAMP_TYPE:
        raise InvalidBatchError(
            "a v2 batch is CreateTime or LogAppendTime; only v0 messages have no timestamp type."
        )
    bits = int(codec)
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        bits |= Attributes.LOG_APPEND_TIME
    if is_transactional:
        bits |= Attributes.TRANSACTIONAL
    if is_control:
        bits |= Attributes.CONTROL
    if has_delete_horizon:
        bits |= Attributes.DELETE_HORIZON
    return bits


def set_base_offset(buffer: bytearray | memoryview, base_offset: int, position: int = 0) -> None:
    """Give the batch at `position` its offsets, as a leader does on append; the CRC does not cover them."""
    _check_changeable(buffer, position)
    _pack(_INT64, buffer, position, "base offset", base_offset)


def set_last_offset(buffer: bytearray | memoryview, last_offset: int, position: int = 0) -> None:
    """Give the batch its offsets, of which this is the last. Kafka: DefaultRecordBatch.setLastOffset."""
    delta = BatchHeader.unpack(buffer, position).last_offset_delta
    set_base_offset(buffer, last_offset - delta, position)


def set_partition_leader_epoch(buffer: bytearray | memoryview, epoch: int, position: int = 0) -> None:
    """Set the leader epoch, which the CRC does not cover."""
    _check_changeable(buffer, position)
    _pack(_INT32, buffer, position + PARTITION_LEADER_EPOCH_AT, "leader epoch", epoch)


def set_max_timestamp(
    buffer: bytearray | memoryview, timestamp_type: TimestampType, max_timestamp: int, position: int = 0
) -> None:
    """Set timestamp type, max timestamp and CRC, if changed. Kafka: DefaultRecordBatch.setMaxTimestamp."""
    _check_changeable(buffer, position)
    header = BatchHeader.unpack(buffer, position)
    if (header.timestamp_type, header.max_timestamp) == (timestamp_type, max_timestamp):
        return
    attributes = attributes_of(
        header.codec,
        timestamp_type,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        has_delete_horizon=header.delete_horizon_ms is not None,
    )
    _check_batch(buffer, position, position + header.size)
    _pack(_INT64, buffer, position + MAX_TIMESTAMP_AT, "max timestamp", max_timestamp)
    _pack(_INT16, buffer, position + ATTRIBUTES_AT, "attributes", attributes)
    write_crc(buffer, position, position + header.size)


def write_crc(buffer: bytearray | memoryview, position: int, end: int) -> None:
    """Compute the CRC of the batch in buffer[position:end] and put it in its place."""
    _check_batch(buffer, position, end)
    crc = int(crc32c(byte_array(buffer), position + ATTRIBUTES_AT, end))
    _pack(_UINT32, buffer, position + CRC_AT, "CRC", crc)


_INT16, _INT32, _INT64, _UINT32 = (struct.Struct(form) for form in (">h", ">i", ">q", ">I"))


def _check_header(buffer: Buffer, position: int) -> None:
    left = len(buffer) - position
    if left < RECORD_BATCH_OVERHEAD or position < 0:
        raise CorruptRecordError(
            f"only {max(left, 0)} bytes are left, but a batch header has {RECORD_BATCH_OVERHEAD}.",
            position=position,
        )


def _check_changeable(buffer: Buffer, position: int) -> None:
    _check_header(buffer, position)
    if buffer[position + 16] != 2:
        raise InvalidBatchError(
            f"magic is {buffer[position + 16]}; only batches of magic 2 can be changed in place."
        )


def _check_batch(buffer: Buffer, position: int, end: int) -> None:
    if not 0 <= position <= end - RECORD_BATCH_OVERHEAD <= len(buffer) - RECORD_BATCH_OVERHEAD:
        raise CorruptRecordError(
            f"a batch of {end - position} bytes does not fit in the given buffer of {len(buffer)} bytes.",
            position=position,
        )


def _pack(form: struct.Struct, buffer: bytearray | memoryview, position: int, name: str, value: int) -> None:
    try:
        form.pack_into(buffer, position, value)
    except struct.error:
        raise InvalidBatchError(
            f"{name} {value} does not fit its {form.size} bytes in a batch header."
        ) from None
