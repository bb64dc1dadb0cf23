"""Records of `__remote_log_metadata`, as Kafka prints them: the segments of tiered storage and their state.

A value begins with three unsigned varints: the frame version, which is always 1, the record type, and the
version of that type. The message follows, in the compact form of flexible versions: each struct ends with
its tagged fields. Kafka 4.3.1 has four types in version 0.

Kafka: RemoteLogMetadataSerde.java, and toString of the classes that it reads
"""

from __future__ import annotations

from stratalog.errors import InvalidRecordError
from stratalog.records.internal import wire

SEGMENT_STATES = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
DELETE_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")
FRAME_VERSION = 1
TXN_INDEX_EMPTY_TAG = 0

_read_string = wire.string_reader(compact=True, nullable=False)
_read_bytes = wire.bytes_reader(compact=True, nullable=True)


def remote_log_text(offset: int, value: bytes | None) -> str:
    """The text for the value of a record; a sentence if it cannot be read."""
    try:
        return _text(value)
    except InvalidRecordError as error:
        return f"Error at offset {offset}, skipping. {error.reason}"


def _text(value: bytes | None) -> str:
    if value is None:
        raise InvalidRecordError("the record has no value")
    message = _Message(value)
    frame_version = message.varint()
    if frame_version != FRAME_VERSION:
        raise InvalidRecordError(f"frame version {frame_version} is unknown, only {FRAME_VERSION} is known")
    record_type, version = message.varint(), message.varint()
    if record_type >= len(_FORMS):
        raise InvalidRecordError(f"Unknown metadata id {record_type}")
    if version != 0:
        raise InvalidRecordError(f"version {version} of record type {record_type} is unknown")
    return _FORMS[record_type](message)


class _Message:
    """Reads one message from front to back. Whatever the bytes say, the only error is InvalidRecordError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def varint(self) -> int:
        value, self._position = wire.read_unsigned_varint(self._data, self._position)
        return value

    def number(self, kind: str) -> int:
        value, self._position = wire.FIXED_READERS[kind](self._data, self._position)
        number: int = value
        return number

    def uuid(self) -> str:
        value, self._position = wire.read_uuid(self._data, self._position)
        return value

    def topic_partition(self) -> str:
        topic, self._position = _read_string(self._data, self._position)
        topic_id, partition = self.uuid(), self.number("int32")
        self.tags()
        return f"{topic_id}:{topic}-{partition}"

    def segment_id(self) -> str:
        topic_partition, segment_id = self.topic_partition(), self.uuid()
        self.tags()
        return f"RemoteLogSegmentId{{topicIdPartition={topic_partition}, id={segment_id}}}"

    def epochs(self) -> str:
        starts = {}
        for _ in range(self.varint() - 1):
            epoch = self.number("int32")
            starts[epoch] = self.number("int64")
            self.tags()
        return "{" + ", ".join(f"{epoch}={starts[epoch]}" for epoch in sorted(starts)) + "}"

    def custom_metadata(self) -> str:
        data, self._position = _read_bytes(self._data, self._position)
        return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"

    def state(self, names: tuple[str, ...]) -> str:
        number = self.number("int8")
        if not 0 <= number < len(names):
            raise InvalidRecordError(f"state {number} is none of {', '.join(names)}")
        return names[number]

    def tags(self) -> dict[int, bytes]:
        """The tagged fields at the end of a struct."""
        fields = {}
        for _ in range(self.varint()):
            tag, size = self.varint(), self.varint()
            fields[tag], self._position = wire.read_slice(self._data, self._position, size)
        return fields

    def txn_index_empty(self) -> str:
        return "true" if any(self.tags().get(TXN_INDEX_EMPTY_TAG, b"")) else "false"


def _segment(message: _Message) -> str:
    segment_id = message.segment_id()
    start_offset, end_offset = message.number("int64"), message.number("int64")
    broker_id = message.number("int32")
    max_timestamp, event_timestamp = message.number("int64"), message.number("int64")
    epochs, size, custom = message.epochs(), message.number("int32"), message.custom_metadata()
    state, txn_index_empty = message.state(SEGMENT_STATES), message.txn_index_empty()
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={segment_id}, startOffset={start_offset}, "
        f"endOffset={end_offset}, brokerId={broker_id}, maxTimestampMs={max_timestamp}, "
        f"eventTimestampMs={event_timestamp}, segmentLeaderEpochs={epochs}, segmentSizeInBytes={size}, "
        f"customMetadata={custom}, state={state}, txnIdxEmpty={txn_index_empty}}}"
    )


def _segment_update(message: _Message) -> str:
    segment_id, broker_id, timestamp = message.segment_id(), message.number("int32"), message.number("int64")
    custom, state = message.custom_metadata(), message.state(SEGMENT_STATES)
    return (
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={segment_id}, customMetadata={custom}, "
        f"state={state}, eventTimestampMs={timestamp}, brokerId={broker_id}}}"
    )


def _partition_delete(message: _Message) -> str:
    topic_partition = message.topic_partition()
    broker_id, timestamp = message.number("int32"), message.number("int64")
    return (
        f"RemotePartitionDeleteMetadata{{topicPartition={topic_partition}, "
        f"state={message.state(DELETE_STATES)}, eventTimestampMs={timestamp}, brokerId={broker_id}}}"
    )


def _segment_snapshot(message: _Message) -> str:
    segment_id = message.uuid()
    start_offset, end_offset = message.number("int64"), message.number("int64")
    message.number("int32")  # broker id and, below, the time of the event: Kafka does not print them here
    max_timestamp = message.number("int64")
    message.number("int64")
    epochs, size, custom = message.epochs(), message.number("int32"), message.custom_metadata()
    state, txn_index_empty = message.state(SEGMENT_STATES), message.txn_index_empty()
    return (
        f"RemoteLogSegmentMetadataSnapshot{{segmentId={segment_id}, startOffset={start_offset}, "
        f"endOffset={end_offset}, maxTimestampMs={max_timestamp}, segmentLeaderEpochs={epochs}, "
        f"segmentSizeInBytes={size}, customMetadata={custom}, state={state}, txnIdxEmpty={txn_index_empty}}}"
    )


_FORMS = (_segment, _segment_update, _partition_delete, _segment_snapshot)  # by record type
