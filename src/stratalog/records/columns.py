"""Batches to Arrow columns: the one bulk decoder, used by all readers.

The columns are those of Spark's own Kafka source, so that the same query works on both; fields of the batch
are added on request. Columns that were not requested are not copied: a query of offsets touches no value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import pyarrow as pa

from stratalog.errors import UsageError, WrongTypeError
from stratalog.records.arrays import MAKERS, PLAIN_COLUMNS, TYPES, Maker, RowChunk
from stratalog.records.rows import RowMemory, RowReader

KAFKA_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
ALL_COLUMNS = tuple(TYPES)


def arrow_schema(columns: Sequence[str] = KAFKA_COLUMNS) -> pa.Schema:
    """The Arrow schema of these columns; an unknown name is a UsageError that lists the known ones."""
    columns = column_names(columns)
    unknown = [name for name in columns if name not in TYPES]
    if unknown:
        raise UsageError(f"unknown columns {', '.join(unknown)}; the columns are {', '.join(TYPES)}.")
    return pa.schema([(name, TYPES[name]) for name in columns])


def column_names(columns: object) -> list[str]:
    """The names of columns that a caller gave; WrongTypeError if they are not a list of names."""
    if isinstance(columns, str):
        raise WrongTypeError(f"columns is {columns!r}: it must be a list of names, such as [{columns!r}].")
    if isinstance(columns, Set):
        raise WrongTypeError(f"columns is {columns!r}, which has no order: give a list of names.")
    if isinstance(columns, Iterable):
        names = list(columns)
        if all(isinstance(name, str) for name in names):
            return names
        columns = names
    raise WrongTypeError(f"columns is {columns!r}: it must be a list of names.")


def read_columns(buffer: Any, **options: Any) -> Iterator[pa.RecordBatch]:
    """The records of a buffer of batches, as Arrow; the options are those of `ColumnReader`."""
    return ColumnReader(**options).read(buffer)


class ColumnMemory(RowMemory):
    """Memory that several ColumnReaders use, one after the other.

    It also keeps the last array of a column that has the same value in all rows, such as `topic`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._repeated: dict[str, tuple[object, pa.Array]] = {}

    def repeated(self, name: str, value: str | int, count: int) -> pa.Array:
        """The column of this name with the same value in all rows; it has `count` rows or more."""
        known, column = self._repeated.get(name, (None, None))
        if known != value or len(column) < count:
            column = pa.repeat(pa.scalar(value, TYPES[name]), count)
            self._repeated[name] = value, column
        return column


class ColumnReader(RowReader[pa.RecordBatch]):
    """Decodes batches to Arrow batches of these columns; the other options are those of `RowReader`.

    `made` are functions that make further columns, of binary values; these come before `columns`.
    """

    def __init__(
        self,
        *,
        columns: Sequence[str] = KAFKA_COLUMNS,
        topic: str = "",
        partition: int = 0,
        made: Mapping[str, Maker] | None = None,
        memory: ColumnMemory | None = None,
        **options: Any,
    ) -> None:
        made = made or {}
        if not columns and not made:
            raise UsageError("no columns are given; to count records, add up the headers of `walk_batches`.")
        memory = memory or ColumnMemory()
        wants_both = "key" in columns and "value" in columns
        together = tuple(name for name in PLAIN_COLUMNS if wants_both and name in columns)
        super().__init__(together=together, memory=memory, **options)
        own = [pa.field(name, pa.binary()) for name in made]
        self.schema = pa.schema([*own, *arrow_schema(columns)])
        constants: dict[str, str | int] = {"topic": topic, "partition": partition}
        self._makers: list[Maker] = [*made.values()]
        self._makers += [
            _slices_of(memory.repeated(name, constants[name], self._max_rows))
            if name in constants
            else MAKERS[name]
            for name in columns
        ]

    def _make(self, chunk: RowChunk) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([make(chunk) for make in self._makers], schema=self.schema)


def _slices_of(column: pa.Array) -> Maker:
    return lambda chunk: column.slice(0, len(chunk.rows))
