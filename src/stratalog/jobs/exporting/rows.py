"""The rows of an export: their columns, and how a task's batches become rows, day by day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from stratalog.errors import UsageError
from stratalog.files.reading import DiskReader
from stratalog.jobs.decoding.asked import DECODED
from stratalog.jobs.decoding.columns import DecodedColumns
from stratalog.jobs.decoding.decoding import Decoding
from stratalog.jobs.decoding.finding import Decodings, find_decodings, pinned
from stratalog.jobs.reading.omissions import OnOmission, ignore_omission
from stratalog.jobs.reading.options import KAFKA_COLUMNS, ReadOptions
from stratalog.jobs.reading.read import read_task
from stratalog.jobs.reading.split import ReadTask
from stratalog.records.arrays import TYPES

MICROS_OF_A_DAY = 86_400_000_000
# How Hive, Spark and Arrow write a null for a column that is in the path.
NO_DATE = "__HIVE_DEFAULT_PARTITION__"
# The last day that `datetime` knows, counted from 1970; a later timestamp has no date.
_LAST_DAY = date.max.toordinal() - date(1970, 1, 1).toordinal()


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
        for name in DECODED:
            if name not in self.columns and not self._decoding(name).is_binary:
                raise UsageError(
                    f"{name} has an encoding, but is not among the columns: add it to the columns, or leave "
                    "the encoding out."
                )

    @cached_property
    def decoded(self) -> DecodedColumns:
        """The columns of a file: the requested ones, and for a decoded one also its undecoded bytes."""
        parts = [
            [made for made, _ in self._decoding(name).fields(name)] if name in DECODED else [name]
            for name in self.columns
        ]
        names = tuple(name for part in parts for name in part)
        return DecodedColumns(names=names, decodings=Decodings(self.key, self.value))

    @property
    def schema(self) -> pa.Schema:
        """The columns of a file."""
        return self.decoded.schema

    @property
    def columns_to_read(self) -> tuple[str, ...]:
        """The columns to read from the log; the path needs the day, so the timestamp is always read."""
        return self.columns if "timestamp" in self.columns else (*self.columns, "timestamp")

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of `columns_to_read` as rows of the export."""
        return self.decoded.rows(batch)

    @property
    def undecoded_columns(self) -> list[str]:
        """The columns that hold the bytes of keys and values that could not be decoded."""
        return self.decoded.undecoded

    def undecoded_count(self, batch: pa.RecordBatch) -> int:
        """How many keys and values of a batch of rows could not be decoded."""
        return sum(len(batch) - batch.column(name).null_count for name in self.undecoded_columns)

    def to_json(self) -> dict[str, Any]:
        return {
            "columns": list(self.columns),
            **{name: _decoding_json(self._decoding(name)) for name in DECODED},
            "read_committed": self.read_committed,
            "include_control": self.include_control,
        }

    def _decoding(self, name: str) -> Decoding:
        return self.key if name == "key" else self.value


def row_settings(
    options: ReadOptions, columns: Sequence[str] | None = None, *, disk: DiskReader | None = None
) -> RowSettings:
    """The settings of an export with these options, and with the schemas that are found for them.

    Without `columns`, the rows have the columns of a read. The topic is always left out: it is in the path.
    """
    if options.table is not None:
        raise UsageError("decode cannot be exported: read the table, and write it with Spark's own writers.")
    decodings = find_decodings(options, disk=disk)
    chosen = options.record_columns if columns is None else columns
    return RowSettings(
        columns=tuple(name for name in chosen if name != "topic"),
        key=decodings.key,
        value=decodings.value,
        read_committed=options.read_committed,
        include_control=options.include_control,
    )


def with_new_schemas(
    settings: RowSettings,
    options: ReadOptions,
    disk: DiskReader,
    on_omission: OnOmission = ignore_omission,
) -> RowSettings:
    """The same settings, with schemas that have been registered since they were made.

    Called after a plan is made: by then every schema that the planned records need is registered.
    """
    if not settings.key.uses_registry and not settings.value.uses_registry:
        return settings
    named = pinned(options, Decodings(settings.key, settings.value))
    found = find_decodings(named, disk=disk, on_omission=on_omission)
    return replace(settings, key=found.key, value=found.value)


def _decoding_json(decoding: Decoding) -> dict[str, str | None]:
    """An encoding, and the type of its column if a schema determines it."""
    kind = None if decoding.reader is None else str(decoding.type)
    return {"encoding": decoding.encoding.value, "schema": kind}


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

    NO_DATE for a day before 1970, such as that of a record without a timestamp, or after the year 9999.
    """
    if not 0 <= day <= _LAST_DAY:
        return NO_DATE
    return date.fromordinal(date(1970, 1, 1).toordinal() + day).isoformat()
