"""The `stratalog` data source: Kafka log directories as DataFrames, without a broker.

    spark.read.format("stratalog").option("subscribe", "orders").load("/var/lib/kafka")

This module is thin: `jobs/reading` plans and does a read. Spark imports this module in every process that
plans, so heavy modules are imported only where they are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from stratalog.errors import UsageError
from stratalog.jobs.reading.options import ReadOptions
from stratalog.spark.workers import prepare_worker, require_version
from stratalog.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

    from stratalog.jobs.reading.split import ReadTask

SPARK_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
    "leaderEpoch": "int",
    "producerId": "bigint",
    "producerEpoch": "smallint",
    "sequence": "int",
    "isTransactional": "boolean",
    "isControl": "boolean",
    "codec": "string",
    "position": "bigint",
}


class StratalogSource(DataSource):
    """The data source behind `format("stratalog")`."""

    @classmethod
    def name(cls) -> str:
        return "stratalog"

    def schema(self) -> str:
        # Options are checked here too, so that `load` raises the error and not the first action.
        options = ReadOptions.parse(self.options, streaming=None)
        if options.table is not None:
            from stratalog.spark.tables import table_schema

            return table_schema(options.table)
        return schema_of(options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        if self.options.get("decode") is not None:
            from stratalog.spark.tables import TableReader

            return TableReader(self.options, schema)
        return StratalogReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from stratalog.spark.sink import StratalogWriter

        return StratalogWriter(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from stratalog.spark.sink import StratalogStreamWriter

        return StratalogStreamWriter(self.options, schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        from stratalog.spark.stream import StratalogStreamReader

        return StratalogStreamReader(self.options, schema)


class TaskPartition(InputPartition):
    """A task for a worker, and the version of Stratalog that planned it."""

    def __init__(self, task: ReadTask) -> None:
        super().__init__(None)
        self.version = __version__
        self.task = task


class StratalogReader(DataSourceReader):
    """Plans on the driver, reads in the workers."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = ReadOptions.parse(options)
        self._columns = checked_columns(schema)
        self._nullable = [field.nullable for field in schema.fields]

    def partitions(self) -> list[InputPartition]:
        prepare_worker()
        from stratalog.jobs.reading.plan import plan_read

        return [TaskPartition(task) for task in plan_read(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._columns, self._nullable)


def read_partition(
    partition: InputPartition, columns: tuple[str, ...], nullable: list[bool]
) -> Iterator[pa.RecordBatch]:
    """The records of a task, in a worker."""
    if not isinstance(partition, TaskPartition):
        return  # Spark passes None for a plan without tasks
    require_version(partition.version)
    prepare_worker()
    from stratalog.jobs.reading.arrow import with_nullability
    from stratalog.jobs.reading.read import read_task

    yield from with_nullability(read_task(partition.task, columns), nullable)


def schema_of(columns: tuple[str, ...]) -> str:
    """These columns in Spark's DDL."""
    return ", ".join(f"{name} {SPARK_TYPES[_known(name)]}" for name in columns)


def checked_columns(schema: StructType) -> tuple[str, ...]:
    """The names in a schema; UsageError if one is unknown, is there twice or has another type."""
    check_once(schema)
    for field in schema.fields:
        wanted = SPARK_TYPES[_known(field.name)]
        if field.dataType.simpleString() != wanted:
            raise UsageError(
                f"the column {field.name} is {wanted}, not {field.dataType.simpleString()}: read it as it "
                "is, and cast it in the query."
            )
    return tuple(schema.fieldNames())


def check_once(schema: StructType) -> None:
    """UsageError for a name that is twice in a schema: Spark's own failure would be hard to read."""
    names = schema.fieldNames()
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"the schema has the column {', '.join(twice)} more than once.")


def _known(name: str) -> str:
    if name not in SPARK_TYPES:
        raise UsageError(f"there is no column {name}; the columns are {', '.join(SPARK_TYPES)}.")
    return name
