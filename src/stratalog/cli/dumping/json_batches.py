"""Batches and records as JSON: one object for each, with all fields. Keys and values may be any bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from stratalog.cli.dumping.contents import bytes_at, control_text, decoded
from stratalog.cli.dumping.options import Decoder, DumpOptions
from stratalog.cli.dumping.printer import Printer
from stratalog.cli.dumping.runs import Fault, RecordReader, Records
from stratalog.errors import InvalidRecordError
from stratalog.limits import INT32_MAX
from stratalog.records.batch import Attributes
from stratalog.records.compression import CODEC_MASK, Codec
from stratalog.records.kernels.decode import varint
from stratalog.records.kernels.memory import Bytes
from stratalog.records.utf8 import decode_text
from stratalog.segment.headers import BatchChunk

MAGIC_V2 = 2


class JsonBatches:
    """Prints the batches of one file as JSON lines; records come after their batch."""

    def __init__(self, path: str, options: DumpOptions, printer: Printer) -> None:
        self._path = path
        self._options = options
        self._printer = printer
        self._reader = RecordReader() if options.deep else None

    def print_chunk(self, chunk: BatchChunk) -> Iterator[Fault]:
        """Print the chunk's batches.

        Yields the fault of each unreadable batch as soon as everything up to that batch is printed.
        """
        if self._reader is None:
            for row in chunk.headers:
                self._printer.line("", _batch(row, chunk.position))
            return
        printed = 0
        for records in self._reader.read(chunk):
            printed = 0 if records.is_first else printed
            for row in records.rows:
                for batch in records.batches[printed : int(row["batch"]) + 1]:
                    self._printer.line("", _batch(batch, chunk.position))
                printed = max(printed, int(row["batch"]) + 1)
                yield from self._print_record(records, row, chunk.position)
            for batch in records.batches[printed : records.batches_end]:
                self._printer.line("", _batch(batch, chunk.position))
            printed = max(printed, records.batches_end)
            if records.fault is not None:
                yield records.fault

    def _print_record(self, records: Records, row: np.void, position: int) -> Iterator[Fault]:
        batch = records.batches[int(row["batch"])]
        record = _record(records.data, row, batch)
        key = bytes_at(records.data, row["key_position"], row["key_size"])
        value = bytes_at(records.data, row["value_position"], row["value_size"])
        try:
            if batch["magic"] == MAGIC_V2 and batch["attributes"] & Attributes.CONTROL:
                record["control"] = control_text(key, value)
            elif self._options.print_data:
                record |= self._contents(int(row["offset"]), key, value)
        except InvalidRecordError as error:
            yield Fault(position + int(batch["position"]), error.reason)
        self._printer.line("", record)

    def _contents(self, offset: int, key: bytes | None, value: bytes | None) -> dict[str, object]:
        if not self._options.decodes:
            return {"key": _text(key), "value": _text(value)}
        key_text, payload = decoded(self._options, offset, key, value)
        if self._options.decoder is Decoder.TEXT:
            return {"key": key_text, "value": payload}
        return {"key": _parsed(key_text), "value": _parsed(payload)}


def _batch(row: np.void, position: int) -> dict[str, object]:
    attributes, magic = int(row["attributes"]), int(row["magic"])
    codec = attributes & CODEC_MASK
    facts: dict[str, object] = {
        "type": "batch",
        "position": position + int(row["position"]),
        "size": int(row["size"]),
        "magic": magic,
        "last_offset": int(row["last_offset"]),
        "timestamp_type": _timestamp_type(attributes, magic),
        "max_timestamp": int(row["max_timestamp"]),
        "codec": Codec(codec).kafka_name if codec <= Codec.ZSTD else "unknown",
        "crc": int(row["crc"]),
        "is_valid": bool(row["valid"]),
    }
    if magic == MAGIC_V2:
        base_offset, base_sequence = int(row["base_offset"]), int(row["base_sequence"])
        facts |= {
            "base_offset": base_offset,
            "records_count": int(row["records_count"]),
            "base_sequence": base_sequence,
            "last_sequence": _sequence(base_sequence, int(row["last_offset"]) - base_offset),
            "producer_id": int(row["producer_id"]),
            "producer_epoch": int(row["producer_epoch"]),
            "partition_leader_epoch": int(row["partition_leader_epoch"]),
            "is_transactional": bool(attributes & Attributes.TRANSACTIONAL),
            "is_control": bool(attributes & Attributes.CONTROL),
            "delete_horizon_ms": int(row["base_timestamp"])
            if attributes & Attributes.DELETE_HORIZON
            else None,
        }
    return facts


def _record(data: Bytes, row: np.void, batch: np.void) -> dict[str, Any]:  # Any: what JSON can hold
    record = {
        "type": "record",
        "offset": int(row["offset"]),
        "timestamp": int(row["timestamp"]),
        "key_size": int(row["key_size"]),
        "value_size": int(row["value_size"]),
    }
    if batch["magic"] == MAGIC_V2:
        delta = int(row["offset"]) - int(batch["base_offset"])
        record["sequence"] = _sequence(int(batch["base_sequence"]), delta)
        record["headers"] = list(_headers(data, row))
    return record


def _headers(data: Bytes, row: np.void) -> Iterator[dict[str, object]]:
    position = int(row["headers_position"])
    end = position + int(row["headers_size"])
    for _ in range(int(row["headers_count"])):
        size, position = varint(data, position, end)
        key = decode_text(data[position : position + size].tobytes())
        size, position = varint(data, position + size, end)
        yield {"key": key, "value": _text(bytes_at(data, position, size))}
        position += max(size, 0)


def _timestamp_type(attributes: int, magic: int) -> str:
    if magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if attributes & Attributes.LOG_APPEND_TIME else "CreateTime"


def _sequence(base_sequence: int, delta: int) -> int:
    return -1 if base_sequence < 0 else (base_sequence + delta) & INT32_MAX


def _text(raw: bytes | None) -> object:
    """A string if the bytes are UTF-8, else their base64, so that nothing is lost."""
    if raw is None:
        return None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode("ascii")}


def _parsed(text: str | None) -> object:
    """A decoder's JSON text as a JSON value; a sentence or <DELETE> stays text."""
    if text is None or not text.startswith("{"):
        return text
    parsed: object = json.loads(text)
    return parsed
