"""Records of Kafka's internal topics with their keys and values decoded, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from stratalog.jobs.tables import SOURCE_COLUMNS, TABLES, InternalTable, decoded
from stratalog.records.internal_topics import SHARE_GROUP_STATE
from stratalog.scanning.values import json_text

_DECODED = ("key", "value", "problem")
_TABLES = {table.topic: table for table in TABLES.values()} | {
    SHARE_GROUP_STATE: InternalTable(topic=SHARE_GROUP_STATE, columns={}, fill=lambda _: {})
}


def columns_for(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns to read from an internal topic, so that these columns can be printed."""
    return tuple(dict.fromkeys((*columns, *SOURCE_COLUMNS)))


def with_messages(
    topic: str, batches: Iterable[pa.RecordBatch], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Makes batches with these columns from batches with `columns_for(columns)`; key and value are JSON.

    A record that cannot be decoded keeps its bytes, as text with \\xNN where it is not UTF-8.
    """
    import pyarrow.compute as pc

    for batch in batches:
        rows = pa.Table.from_batches(decoded(_TABLES[topic], [batch], _DECODED)).combine_chunks()
        has_problem = rows["problem"].combine_chunks().is_valid()
        found = {name: batch.column(name) for name in columns}
        for name in {"key", "value"} & {*columns}:
            texts = rows[name].combine_chunks()
            is_whole = not has_problem.true_count
            found[name] = texts if is_whole else pc.if_else(has_problem, _escaped(found[name]), texts)
        yield pa.RecordBatch.from_pydict(found)


def _escaped(column: pa.Array) -> pa.Array:
    """Bytes as a JSON string."""
    return pa.array([None if each is None else json_text(each) for each in column.to_pylist()], pa.string())
