"""What a scan of a table reads: decoded records, or a table that is computed for each reading."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from stratalog.files.entries import Path
from stratalog.files.storage import reader_for
from stratalog.jobs.metadata_snapshot import TableTask, plan_table, read_table_task
from stratalog.jobs.reading.arguments import option_texts
from stratalog.jobs.reading.arrow import without_columns
from stratalog.jobs.reading.catalog import find_partitions
from stratalog.jobs.reading.narrowing import Narrowing
from stratalog.jobs.reading.omissions import OnOmission
from stratalog.jobs.reading.options import ReadOptions
from stratalog.jobs.tables import SOURCE_COLUMNS, TABLES, decoded
from stratalog.scanning.in_order import cores, in_order
from stratalog.scanning.sources import BUDGET, batch_size

LogPaths = Path | Sequence[Path]
Compute = Callable[[OnOmission], pa.Table]


def table_options(paths: LogPaths, table: str, **options: str) -> ReadOptions:
    """The options that read an internal topic decoded; UsageError if it is not there."""
    parsed = ReadOptions.parse(option_texts(paths) | {"decode": table} | options)
    find_partitions(reader_for(*parsed.paths), parsed)
    return parsed


@dataclass(frozen=True, kw_only=True)
class DecodedSource:
    """The records of an internal topic, decoded."""

    options: ReadOptions

    @property
    def schema(self) -> pa.Schema:
        assert self.options.table is not None
        return TABLES[self.options.table].schema

    def batches(
        self, columns: Sequence[str], *, narrowing: Narrowing, on_omission: OnOmission
    ) -> Generator[pa.RecordBatch, None, None]:
        del narrowing  # it refers to columns of a log; a table's columns may have the same names
        assert self.options.table is not None
        table, disk = TABLES[self.options.table], reader_for(*self.options.paths)

        def read(task: TableTask) -> Generator[pa.RecordBatch, None, None]:
            records = read_table_task(task, SOURCE_COLUMNS, disk=disk, on_omission=on_omission)
            yield from decoded(table, records, columns)

        def tasks() -> Generator[TableTask, None, None]:
            yield from plan_table(self.options, disk=disk, on_omission=on_omission)

        return in_order(tasks(), read, threads=cores(), size_of=batch_size, budget=BUDGET)


@dataclass(frozen=True, kw_only=True)
class ComputedSource:
    """A table that is computed when it is read."""

    schema: pa.Schema
    compute: Compute

    def batches(
        self, columns: Sequence[str], *, narrowing: Narrowing, on_omission: OnOmission
    ) -> Generator[pa.RecordBatch, None, None]:
        del narrowing
        table = self.compute(on_omission).cast(self.schema)
        if columns:
            yield from table.select(list(columns)).to_batches()
        else:
            yield without_columns(table.num_rows)
