"""The rows of an export: their columns, and how a task's batches become rows, day by day."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from stratalog.errors import UsageError
from stratalog.files.reading import DiskReader
from stratalog.jobs.exporting.decoding import Decoding, Encoding
from stratalog.jobs.reading.omissions import OnOmission, ignore_omission
from stratalog.jobs.reading.options import KAFKA_COLUMNS
from stratalog.jobs.reading.read import read_task
from stratalog.jobs.reading.split import ReadTask
from stratalog.records.columns import TYPES

MICROS_OF_A_DAY = 86_400_000_000
# How Hive, Spark and Arrow write a null for a column that is in the path.
NO_DATE = "__HIVE_DEFAULT_PARTITION__"
# The years that `datetime` knows; a timestamp outside of them has no date.
_LAST_DAY = date.max.toordinal() - date(1970, 1, 1).toordinal()
_DECODED = ("key", "value")


@dataclass(frozen=True, kw_only=True)
class RowSettings:
    """What the rows of an export look like; all runs into one folder must use the same settings."""

    columns: tuple[str, ...] = tuple(name for name in KAFKA_COLUMNS if name != "topic")
    key: Decoding = field(default_factory=Decoding)
    value: Decoding = field(default_factory=Decoding)
    read_committed: bool = False
    include_control: bool = False

    def __post_init__(self) -> None:
        unknown = [name for name in self.columns if name not in TYPES]
        if unknown:
            raise UsageError(f"there is no column {', '.join(unknown)}; the columns are {', '.join(TYPES)}.")
        if "topic" in self.columns:
            raise UsageError("topic is in the path of each file: leave it out of the columns.")
        if not self.columns:
            raise UsageError("an export needs at least one column.")
        for name in _DECODED:
            if name not in self.columns and self._decoding(name).encoding is not Encoding.BINARY:
                raise UsageError(
                    f"{name} has an encoding, but is not among the columns: add it to the columns, or leave "
                    "the encoding out."
                )

    @property
    def schema(self) -> pa.Schema:
        """The columns of a file: the requested ones, and a column of undecoded bytes for each decoded one."""
        fields: list[tuple[str, pa.DataType]] = []
        for name in self.columns:
            decoding = self._decoding(name)
            fields.append((name, TYPES[name] if decoding.encoding is Encoding.BINARY else decoding.type))
            if decoding.encoding is not Encoding.BINARY:
                fields.append((undecoded_name(name), pa.binary()))
        return pa.schema(fields)

    @property
    def columns_to_read(self) -> tuple[str, ...]:
        """The columns to read from the log; the path needs the day, so the timestamp is always read."""
        return self.columns if "timestamp" in self.columns else (*self.columns, "timestamp")

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of `columns_to_read` as rows of the export."""
        arrays: list[pa.Array] = []
        for name in self.columns:
            decoding = self._decoding(name)
            if decoding.encoding is Encoding.BINARY:
                arrays.append(batch.column(name))
            else:
                arrays += decoding.decode(batch.column(name))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    @property
    def undecoded_columns(self) -> list[str]:
        """The columns for bytes that could not be decoded."""
        decoded = [name for name in _DECODED if self._decoding(name).encoding is not Encoding.BINARY]
        return [undecoded_name(name) for name in decoded]

    def undecoded_count(self, batch: pa.RecordBatch) -> int:
        """How many keys and values of a batch of rows could not be decoded."""
        return sum(len(batch) - batch.column(name).null_count for name in self.undecoded_columns)

    def to_json(self) -> dict[str, Any]:
        return {
            "columns": list(self.columns),
            **{
                name: {"encoding": self._decoding(name).encoding.value, "schema": self._decoding(name).schema}
                for name in _DECODED
            },
            "read_committed": self.read_committed,
            "include_control": self.include_control,
        }

    def _decoding(self, name: str) -> Decoding:
        return {"key": self.key, "value": self.value}.get(name) or _AS_IT_IS


_AS_IT_IS = Decoding()


def undecoded_name(name: str) -> str:
    """The column for the bytes of keys or values that could not be decoded."""
    return f"undecoded{name.capitalize()}"


def by_day(
    task: ReadTask,
    settings: RowSettings,
    disk: DiskReader | None = None,
    on_omission: OnOmission = ignore_omission,
) -> Iterator[tuple[str, str, pa.RecordBatch]]:
    """(topic, day, rows) for the records of a task; a batch that spans several days is split."""
    columns = settings.columns_to_read
    for topic, splits in groupby(task.splits, key=lambda split: split.topic):
        part = replace(task, splits=tuple(splits))
        for batch in read_task(part, columns, disk=disk, on_omission=on_omission):
            for day, rows in _days(batch):
                yield topic, day, settings.rows(rows)


def _days(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    moments = np.asarray(batch.column("timestamp").cast(pa.int64()))
    first, last = int(moments.min()) // MICROS_OF_A_DAY, int(moments.max()) // MICROS_OF_A_DAY
    if first == last:
        yield day_text(first), batch
        return
    days = moments // MICROS_OF_A_DAY
    for day in np.unique(days).tolist():
        yield day_text(day), batch.take(pa.array(np.flatnonzero(days == day)))


def day_text(day: int) -> str:
    """The date of a day counted from 1970, as 2026-11-15.

    A day before 1970 (a record without a timestamp has one) has no date.
    """
    if not 0 <= day <= _LAST_DAY:
        return NO_DATE
    return date.fromordinal(date(1970, 1, 1).toordinal() + day).isoformat()
