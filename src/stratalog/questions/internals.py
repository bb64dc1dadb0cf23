"""Records of Kafka's internal topics with their keys and values decoded, as the JSON of Kafka's dump tool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from stratalog.errors import CorruptRecordError
from stratalog.records.internal.dump_text import Contents, message_texts
from stratalog.records.internal.topics import UNKNOWN, decode_internal
from stratalog.scanning.values import json_text

_MESSAGE = ("key", "value")  # decoded together: most keys tell the type of the value


def columns_for(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns to read from an internal topic, so that these columns can be printed."""
    return tuple(dict.fromkeys((*columns, *_MESSAGE)))


def with_messages(
    topic: str, batches: Iterable[pa.RecordBatch], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Makes batches with these columns from batches with `columns_for(columns)`; key and value are JSON.

    A record that cannot be decoded keeps its bytes, as text with \\xNN where it is not UTF-8.
    """
    for batch in batches:
        keys, values = (batch.column(name).to_pylist() for name in _MESSAGE)
        texts = [_texts(topic, key, value) for key, value in zip(keys, values, strict=True)]
        found = {name: batch.column(name) for name in columns}
        for place, name in enumerate(_MESSAGE):
            if name in columns:
                found[name] = pa.array([each[place] for each in texts], pa.string())
        yield pa.RecordBatch.from_pydict(found)


def _texts(topic: str, key: bytes | None, value: bytes | None) -> Contents:
    try:
        record = decode_internal(topic, key, value)
    except CorruptRecordError:
        return Contents(_escaped(key), _escaped(value))
    if record.kind == UNKNOWN:
        return Contents(_escaped(key), _escaped(value))
    return message_texts(record)


def _escaped(part: bytes | None) -> str | None:
    """Bytes as a JSON string."""
    return None if part is None else json_text(part)
