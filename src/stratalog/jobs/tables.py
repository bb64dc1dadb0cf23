"""Kafka's internal topics as tables: a row for each record, with its message in columns and as JSON.

    consumer_offsets      __consumer_offsets     commits, groups and their members
    transaction_state     __transaction_state    the state of each transactional id
    cluster_metadata      __cluster_metadata     the log of the KRaft controllers

`kind` is Kafka's name of the record type. The columns `key` and `value` are the messages as Kafka's dump tool
prints them; the columns after them are the fields that queries need most. A record that cannot be decoded
also has a row, whose `problem` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stratalog.errors import CorruptRecordError, InvalidRecordError
from stratalog.jobs.reading.options import TABLE_TOPICS
from stratalog.limits import MAX_MS
from stratalog.records.control import ControlType, parse_control_key
from stratalog.records.internal import wire
from stratalog.records.internal.dump_text import key_json, value_json
from stratalog.records.internal.schema import decode_message, schema_named
from stratalog.records.internal.topics import UNKNOWN, InternalRecord, decode_control, decode_internal

Row = dict[str, Any]  # Any: a message has fields of every type

TIMESTAMP = pa.timestamp("us", tz="UTC")
# The columns of each record that are read to build a row.
SOURCE_COLUMNS = ("key", "value", "partition", "offset", "timestamp", "isControl")
ROWS_AT_ONCE = 4000

COMMON: dict[str, pa.DataType] = {
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
    "kind": pa.string(),
    "version": pa.int32(),
    "isTombstone": pa.bool_(),
    "key": pa.string(),
    "value": pa.string(),
    "problem": pa.string(),
}
_ASSIGNED = pa.list_(pa.struct([("topic", pa.string()), ("partitions", pa.list_(pa.int32()))]))
_MEMBERS = pa.list_(
    pa.struct(
        [
            ("memberId", pa.string()),
            ("groupInstanceId", pa.string()),
            ("clientId", pa.string()),
            ("clientHost", pa.string()),
            ("topics", pa.list_(pa.string())),
            ("assignment", _ASSIGNED),
        ]
    )
)
# Kafka: TransactionState.java
TRANSACTION_STATES = {
    0: "Empty",
    1: "Ongoing",
    2: "PrepareCommit",
    3: "PrepareAbort",
    4: "CompleteCommit",
    5: "CompleteAbort",
    6: "Dead",
    7: "PrepareEpochFence",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTable:
    """One internal topic: the columns of its table, and the function that fills them from a message."""

    topic: str
    columns: Mapping[str, pa.DataType]
    fill: Callable[[InternalRecord], Row]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(list({**COMMON, **self.columns}.items()))


def decoded(
    table: InternalTable, batches: Iterable[pa.RecordBatch], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The rows for batches of SOURCE_COLUMNS, with these columns of the table."""
    schema = pa.schema([table.schema.field(name) for name in columns])
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            part = batch.slice(start, ROWS_AT_ONCE)
            # Timestamps stay integers: one that Python's datetime cannot hold must not fail the read.
            moments = part.column("timestamp").cast(pa.int64()).to_pylist()
            places = part.drop_columns("timestamp").to_pylist()
            rows = [_row(table, place, moment) for place, moment in zip(places, moments, strict=True)]
            arrays = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
            if arrays:
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            else:
                yield pa.RecordBatch.from_struct_array(pa.nulls(len(rows), pa.struct([])))


def _row(table: InternalTable, place: Row, moment: int) -> Row:
    row: Row = {name: place[name] for name in ("partition", "offset")}
    row |= {"timestamp": moment, "kind": UNKNOWN, "isTombstone": False}
    try:
        if place["isControl"]:
            return row | _control(place["key"], place["value"])
        record = decode_internal(table.topic, place["key"], place["value"])
    except CorruptRecordError as error:
        return row | {"problem": error.reason}
    row |= {"kind": record.kind, "version": record.value_version, "isTombstone": record.is_tombstone}
    if record.kind == UNKNOWN:
        return row | {
            "problem": f"Kafka 4.3.1 does not know type {record.record_type}, or this version of it"
        }
    row["key"] = None if record.key is None else key_json(record)
    row["value"] = None if record.value is None else value_json(record)
    return row | table.fill(record)


def _control(key: bytes | None, value: bytes | None) -> Row:
    """The row of a control record: a transaction's marker, or a message of the Raft quorum."""
    _, kind = parse_control_key(key)
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        return {"kind": ControlType(kind).name}
    record = decode_control(key, value)
    text = None if record.kind == UNKNOWN else value_json(record)
    return {"kind": record.kind, "version": record.value_version, "value": text}


def moment(milliseconds: int | None) -> int | None:
    """Milliseconds as microseconds; None for a negative value, by which Kafka means no time.

    As in the columns of records, a time that would overflow becomes the largest possible one.
    """
    return None if milliseconds is None or milliseconds < 0 else min(milliseconds, MAX_MS) * 1000


def _consumer_offsets(record: InternalRecord) -> Row:
    key, value = record.key or {}, record.value or {}
    row: Row = {"group": key.get("group", key.get("groupId")), "memberId": key.get("memberId")}
    if record.kind in ("OFFSET_COMMIT", "LEGACY_OFFSET_COMMIT"):
        row |= {
            "committedTopic": key["topic"],
            "committedPartition": key["partition"],
            "committedOffset": value.get("offset"),
            "committedMetadata": value.get("metadata"),
            "committedAt": moment(value.get("commitTimestamp")),
        }
    elif record.kind == "GROUP_METADATA":
        row |= {name: value.get(name) for name in ("protocolType", "protocol", "leader")}
        row["generation"] = value.get("generation")
        is_consumer = value.get("protocolType") == "consumer"
        row["members"] = [_classic_member(each, is_consumer) for each in value.get("members", ())]
    elif record.kind.endswith("_MEMBER_METADATA") and value:
        row["members"] = [
            {
                "memberId": key["memberId"],
                "groupInstanceId": value.get("instanceId"),
                "clientId": value["clientId"],
                "clientHost": value["clientHost"],
                "topics": value.get("subscribedTopicNames"),
            }
        ]
    else:
        row["generation"] = value.get("epoch", value.get("memberEpoch"))
    return row


def _classic_member(member: Mapping[str, Any], is_consumer: bool) -> Row:
    row: Row = {name: member.get(name) for name in ("memberId", "groupInstanceId", "clientId", "clientHost")}
    if is_consumer:
        row["topics"] = _embedded("ConsumerProtocolSubscription", member["subscription"]).get("topics")
        row["assignment"] = _embedded("ConsumerProtocolAssignment", member["assignment"]).get(
            "assignedPartitions"
        )
    return row


def _embedded(name: str, raw: bytes) -> Row:
    """Decodes a message that a client wrote and brokers do not check; empty if it cannot be read."""
    try:
        version, position = wire.read_int16(raw, 0)
        values, _ = decode_message(schema_named(name), version, raw, position)
    except InvalidRecordError:
        return {}
    return values


def _transaction_state(record: InternalRecord) -> Row:
    row: Row = {"transactionalId": (record.key or {}).get("transactionalId")}
    value = record.value
    if value is None:
        return row
    status = value["transactionStatus"]
    return row | {
        "producerId": value["producerId"],
        "producerEpoch": value["producerEpoch"],
        "status": TRANSACTION_STATES.get(status, str(status)),
        "timeoutMs": value["transactionTimeoutMs"],
        "partitions": [
            {"topic": each["topic"], "partitions": each["partitionIds"]}
            for each in value["transactionPartitions"] or ()
        ],
        "updatedAt": moment(value["transactionLastUpdateTimestampMs"]),
        "startedAt": moment(value["transactionStartTimestampMs"]),
    }


def _cluster_metadata(record: InternalRecord) -> Row:
    value = record.value or {}
    is_topic = record.kind == "TOPIC_RECORD"
    is_broker = record.kind.endswith("FENCE_BROKER_RECORD")
    return {
        "topic": value.get("name") if is_topic else value.get("topicName"),
        "topicId": value.get("topicId"),
        "partitionId": value.get("partitionId"),
        "brokerId": value.get("id") if is_broker else value.get("brokerId"),
    }


TABLES = {
    "consumer_offsets": InternalTable(
        topic=TABLE_TOPICS["consumer_offsets"],
        columns={
            "group": pa.string(),
            "committedTopic": pa.string(),
            "committedPartition": pa.int32(),
            "committedOffset": pa.int64(),
            "committedMetadata": pa.string(),
            "committedAt": TIMESTAMP,
            "generation": pa.int32(),
            "protocolType": pa.string(),
            "protocol": pa.string(),
            "leader": pa.string(),
            "memberId": pa.string(),
            "members": _MEMBERS,
        },
        fill=_consumer_offsets,
    ),
    "transaction_state": InternalTable(
        topic=TABLE_TOPICS["transaction_state"],
        columns={
            "transactionalId": pa.string(),
            "producerId": pa.int64(),
            "producerEpoch": pa.int16(),
            "status": pa.string(),
            "timeoutMs": pa.int32(),
            "partitions": _ASSIGNED,
            "updatedAt": TIMESTAMP,
            "startedAt": TIMESTAMP,
        },
        fill=_transaction_state,
    ),
    "cluster_metadata": InternalTable(
        topic=TABLE_TOPICS["cluster_metadata"],
        columns={
            "topic": pa.string(),
            "topicId": pa.string(),
            "partitionId": pa.int32(),
            "brokerId": pa.int32(),
        },
        fill=_cluster_metadata,
    ),
}
