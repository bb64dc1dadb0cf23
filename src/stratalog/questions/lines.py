"""Arrow batches as lines of bytes, by a format or as JSON.

The lines of a batch are one Arrow array, whose buffer is written to a file as it is. With a format string, no
record becomes a Python object, and most formats need no Arrow columns either: their lines are made straight
from the decoded rows. `pyarrow.compute` is imported where it is used, because that takes 0.05 s.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stratalog.files.names import TopicPartition
from stratalog.jobs.decoding.asked import DECODED
from stratalog.questions.formats import Format, FormatField
from stratalog.records.base64_text import BASE64, to_base64
from stratalog.records.kernels import lines as kinds
from stratalog.records.lines import LineMaker
from stratalog.scanning.values import column_values, json_text

# As kcat writes it: without spaces, and with only the necessary escapes.
JSON_STYLE = {"ensure_ascii": False, "separators": (",", ":")}
JSON_COLUMNS = ("topic", "partition", "offset", "timestampType", "timestamp", "headers", "key", "value")
_CONTENTS = ("key", "value", "undecodedKey", "undecodedValue")
_BINARY = pa.binary()
_TIMESTAMP_TYPES = {0: "create", 1: "logappend"}
_NO_TEXT, _NULL_TEXT = b"", b"NULL"
# The letters that one pass over the rows can print; in such a pass, topic and partition are constants.
_KINDS = {
    "s": kinds.VALUE,
    "S": kinds.VALUE_SIZE,
    "R": kinds.PACKED_SIZE,
    "k": kinds.KEY,
    "K": kinds.KEY_SIZE,
    "o": kinds.OFFSET,
    "T": kinds.TIMESTAMP,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How records are printed: by a format, or as JSON if there is none.

    `json_parts` are the columns of text that is JSON. `marks_null` prints NULL for a key or value that is
    null, as kcat's -Z does. `in_base64` is for JSON only: it keeps bytes that are not text.
    """

    format: Format | None
    marks_null: bool = False
    in_base64: bool = False
    json_parts: frozenset[str] = frozenset()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that this style needs."""
        if self.format is None:
            return JSON_COLUMNS
        return tuple(dict.fromkeys(part.column for part in self.format if isinstance(part, FormatField)))

    def maker(self, partition: TopicPartition) -> LineMaker | None:
        """A maker of the same lines, straight from the decoded rows of a partition; None if there is none.

        Only for keys and values that are printed as their own bytes, without an encoding such as `avro`.
        """
        if self.format is None:
            return None
        null = _NULL_TEXT if self.marks_null else _NO_TEXT
        same = {"t": partition.topic.encode(), "p": b"%d" % partition.partition}
        parts: list[tuple[int, bytes]] = []
        for part in self.format:
            if isinstance(part, bytes):
                parts.append((kinds.TEXT, part))
            elif part.letter in same:
                parts.append((kinds.TEXT, same[part.letter]))
            elif part.letter in _KINDS:
                parts.append((_KINDS[part.letter], null if part.letter in "sk" else b""))
            else:
                return None
        return LineMaker(parts)

    def lines(self, batch: pa.RecordBatch) -> pa.Array:
        """An array of bytes, a line for each row. The batch must have the columns of `columns`."""
        import pyarrow.compute as pc

        if self.format is None:
            return _json_lines(batch, self.json_parts, in_base64=self.in_base64)
        if not self.columns:
            same = b"".join(part for part in self.format if isinstance(part, bytes))
            return pa.array([same] * batch.num_rows, _BINARY)
        parts = [
            _constant(part) if isinstance(part, bytes) else self._text(part, batch) for part in self.format
        ]
        return pc.binary_join_element_wise(*parts, _constant(b""))

    def _text(self, field: FormatField, batch: pa.RecordBatch) -> pa.Array:
        """A field of each row, as bytes; never null."""
        import pyarrow.compute as pc

        name = field.column
        found = _TEXTS[field.letter](printed(batch, name) if name in DECODED else batch.column(name))
        if not found.null_count:
            return found
        return pc.fill_null(found, _NULL_TEXT if self.marks_null else _NO_TEXT)


@cache
def _constant(data: bytes) -> pa.Scalar:
    """Bytes for Arrow's functions. `pa.scalar` would import pandas, which takes 0.3 s, if it is installed."""
    places = pa.py_buffer(np.array([0, len(data)], np.int32))
    return pa.Array.from_buffers(_BINARY, 1, [None, places, pa.py_buffer(data)])[0]


def printed(batch: pa.RecordBatch, name: str) -> pa.Array:
    """The keys or values of a batch as the bytes to print; what could not be decoded stays as it is."""
    import pyarrow.compute as pc

    found, undecoded = _as_bytes(batch.column(name)), f"undecoded{name.capitalize()}"
    return pc.coalesce(found, batch.column(undecoded)) if undecoded in batch.schema.names else found


def _as_bytes(column: pa.Array) -> pa.Array:
    """Values that were decoded become text, nested ones JSON."""
    kind = column.type
    if pa.types.is_binary(kind):
        return column
    if pa.types.is_string(kind):
        return column.cast(_BINARY)
    texts = [None if each is None else json_text(each, **JSON_STYLE) for each in column_values(column)]
    return pa.array(texts, pa.string()).cast(_BINARY)


def bytes_of(lines: pa.Array) -> memoryview:
    """All lines of an array, one after the other, without a copy."""
    if not len(lines):
        return memoryview(b"")
    _, places, data = lines.buffers()
    offsets = np.frombuffer(places, np.int32, len(lines) + 1, lines.offset * 4)
    return memoryview(data or b"")[int(offsets[0]) : int(offsets[-1])]


def _decimal(column: pa.Array) -> pa.Array:
    return column.cast(pa.string()).cast(_BINARY)


def _sizes(column: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pc.fill_null(pc.binary_length(column), -1)


def _packed_sizes(column: pa.Array) -> pa.Array:
    sizes = np.asarray(_sizes(column)).astype(">i4")
    fixed = pa.Array.from_buffers(pa.binary(4), len(sizes), [None, pa.py_buffer(sizes.tobytes())])
    return fixed.cast(_BINARY)


def milliseconds(column: pa.Array) -> pa.Array:
    """A column of timestamps as Kafka's numbers."""
    import pyarrow.compute as pc

    return pc.divide(column.cast(pa.int64()), 1000)


def _headers(column: pa.Array) -> pa.Array:
    """name=value pairs, with commas between them; a null value is NULL."""
    texts = []
    for headers in column.to_pylist():
        pairs = ((each["key"].encode(), each["value"]) for each in headers or ())
        texts.append(b",".join(name + b"=" + (b"NULL" if value is None else value) for name, value in pairs))
    return pa.array(texts, _BINARY)


_TEXTS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "s": lambda column: column,
    "S": lambda column: _decimal(_sizes(column)),
    "R": _packed_sizes,
    "k": lambda column: column,
    "K": lambda column: _decimal(_sizes(column)),
    "t": lambda column: column.cast(_BINARY),
    "p": _decimal,
    "o": _decimal,
    "T": lambda column: _decimal(milliseconds(column)),
    "h": _headers,
}


def _json_lines(batch: pa.RecordBatch, json_parts: frozenset[str], *, in_base64: bool) -> pa.Array:
    """One JSON object a line, with kcat's names."""
    content: Callable[[Any], Any] = to_base64 if in_base64 else _same  # Any: a value of a column
    columns = [_json_values(batch, name, json_parts) for name in JSON_COLUMNS]
    lines = []
    for topic, partition, offset, kind, time, headers, key, value in zip(*columns, strict=True):
        document: dict[str, Any] = {"topic": topic, "partition": partition, "offset": offset}
        if kind in _TIMESTAMP_TYPES:
            document |= {"tstype": _TIMESTAMP_TYPES[kind], "ts": time}
        if in_base64:
            document["encoding"] = BASE64
        if headers:
            document["headers"] = [part for each in headers for part in (each["key"], content(each["value"]))]
        document |= {"key": content(key), "payload": content(value)}
        lines.append(json_text(document, **JSON_STYLE) + "\n")
    return pa.array(lines, pa.string()).cast(_BINARY)


def _same(value: Any) -> Any:  # Any: a value of a column
    return value


def escaped_rows(batch: pa.RecordBatch) -> NDArray[np.bool_] | None:
    """Which rows have bytes that are not UTF-8, which JSON shows as \\xNN; None if no row has any."""
    columns = [batch.column(name) for name in batch.schema.names if name in _CONTENTS]
    columns = [column for column in columns if pa.types.is_binary(column.type)]
    headers = batch.column("headers") if "headers" in batch.schema.names else None
    if all(_is_text(column) for column in columns) and (
        headers is None or _is_text(headers.flatten().field("value"))
    ):
        return None
    found = np.zeros(batch.num_rows, np.bool_)
    for column in columns:
        found |= [not _is_utf8(value) for value in column.to_pylist()]
    if headers is not None:
        found |= [any(not _is_utf8(each["value"]) for each in row or ()) for row in headers.to_pylist()]
    return found


def _is_text(column: pa.Array) -> bool:
    try:
        column.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _is_utf8(data: bytes | None) -> bool:
    try:
        (data or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _json_values(batch: pa.RecordBatch, name: str, json_parts: frozenset[str]) -> list[Any]:
    """A column as values for JSON: text that is JSON is not quoted again."""
    column = batch.column(name)
    if name == "timestamp":
        return list(milliseconds(column).to_pylist())
    found = column_values(column)
    if name in json_parts:
        found = [None if each is None else json.loads(each) for each in found]
    undecoded = f"undecoded{name.capitalize()}"
    if undecoded in batch.schema.names:
        raw = batch.column(undecoded).to_pylist()
        found = [raw[row] if each is None else each for row, each in enumerate(found)]
    return found
