"""What both readers find in a buffer, in the form of Kafka's own record classes.

`described` gives the dictionaries that the Java oracle gives and the fixtures keep as JSON lines, so that
a test compares all there is with one `==`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from stratalog.records.columns import ALL_COLUMNS, ColumnReader
from stratalog.records.compression import decompress
from stratalog.records.control import ControlType, parse_control_key
from stratalog.records.reader import RecordBatch, read_batches
from tests import naive

Json = dict[str, Any]
Rows = dict[int, list[Json]]  # the records of each batch, by its position
Read = Callable[[bytes], Rows]
TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
TOPIC, PARTITION = "topic", 3


def rows_one_by_one(data: bytes) -> Rows:
    return {batch.facts.position: list(_rows_of(batch)) for batch in read_batches(data)}


def _rows_of(batch: RecordBatch) -> Iterator[Json]:
    facts = batch.facts
    for record in batch:
        sequence = (facts.base_sequence + record.offset - facts.base_offset) & 0x7FFFFFFF
        yield {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "sequence": sequence if facts.base_sequence >= 0 else -1,
            "key": _hex(record.key),
            "value": _hex(record.value),
            "headers": [[key, _hex(value)] for key, value in record.headers],
        }


def rows_of_columns(data: bytes) -> Rows:
    reader = ColumnReader(
        columns=ALL_COLUMNS, topic=TOPIC, partition=PARTITION, include_control=True, max_rows=7
    )
    batches = {batch.facts.position: batch for batch in read_batches(data)}
    rows: Rows = defaultdict(list)
    for part in reader.read(data):
        times = part.column("timestamp").cast(pa.int64()).to_pylist()
        for row, time in zip(part.drop_columns(["timestamp"]).to_pylist(), times, strict=True):
            batch = batches[row["position"]]
            assert _batch_columns(row) == _same_of_batch(batch)
            assert (row["topic"], row["partition"]) == (TOPIC, PARTITION)
            rows[row["position"]].append(
                {
                    "offset": row["offset"],
                    "timestamp": time // 1000,
                    "sequence": row["sequence"],
                    "key": _hex(row["key"]),
                    "value": _hex(row["value"]),
                    "headers": [[pair["key"], _hex(pair["value"])] for pair in row["headers"] or []],
                }
            )
    return rows


def _batch_columns(row: Json) -> tuple[object, ...]:
    names = (
        "timestampType",
        "leaderEpoch",
        "producerId",
        "producerEpoch",
        "isTransactional",
        "isControl",
        "codec",
    )
    return tuple(row[name] for name in names)


def _same_of_batch(batch: RecordBatch) -> tuple[object, ...]:
    return (
        int(batch.timestamp_type),
        batch.facts.partition_leader_epoch,
        batch.facts.producer_id,
        batch.facts.producer_epoch,
        batch.is_transactional,
        batch.is_control,
        batch.codec.kafka_name,
    )


def described(data: bytes, read: Read = rows_one_by_one) -> Iterator[Json]:
    """The batches as Kafka's record classes describe them."""
    rows = read(data)
    for batch in read_batches(data):
        facts = batch.facts
        records = rows.get(facts.position, [])
        is_legacy = facts.magic < 2
        last_sequence, delete_horizon = -1, None
        if not is_legacy:
            last_sequence, delete_horizon = batch.header.last_sequence, batch.header.delete_horizon_ms
        if is_legacy:
            _add_message_checksums(batch, records)
        if batch.is_control:
            for record in records:
                record["controlType"] = _control_type(record)
        yield {
            "position": facts.position,
            "size": facts.size,
            "magic": facts.magic,
            "crc": facts.crc,
            "valid": facts.valid,
            "attributes": facts.attributes,
            "codec": batch.codec.kafka_name,
            "timestampType": TIMESTAMP_TYPES[batch.timestamp_type],
            "maxTimestamp": facts.max_timestamp,
            "lastOffset": facts.last_offset,
            "partitionLeaderEpoch": facts.partition_leader_epoch,
            "producerId": facts.producer_id,
            "producerEpoch": facts.producer_epoch,
            "baseSequence": facts.base_sequence,
            "lastSequence": last_sequence,
            "isTransactional": batch.is_transactional,
            "isControl": batch.is_control,
            "deleteHorizonMs": delete_horizon,
            **({} if is_legacy else {"baseTimestamp": facts.base_timestamp}),
            "baseOffset": records[0]["offset"] if is_legacy else facts.base_offset,
            "records": records,
        }


def _add_message_checksums(batch: RecordBatch, records: list[Json]) -> None:
    """Each old message has its own checksum, also inside a wrapper; readers do not return it."""
    (outer,) = naive.messages(bytes(batch.raw))
    inner = [outer]
    if batch.codec:
        inner = list(naive.messages(decompress(batch.codec, outer.value or b"", magic=outer.magic)))
    for record, message in zip(records, inner, strict=True):
        record |= {"crc": message.crc, "valid": True}


def _control_type(record: Json) -> str:
    _, control_type = parse_control_key(bytes.fromhex(record["key"]))
    return control_type.name if isinstance(control_type, ControlType) else "UNKNOWN"


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()
