"""The `stratalog` data source: Kafka log directories as DataFrames, with no broker.

    spark.read.format("stratalog").option("subscribe", "orders").load("/var/lib/kafka")

Thin: what a read is, how it is planned and done is in `jobs/reading`. Spark imports this module in every
process that plans, so whatever is heavy is imported where it is used.
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
    """What `format("stratalog")` stands for."""

    @classmethod
    def name(cls) -> str:
        return "stratalog"

    def schema(self) -> str:
        # Options are checked here too: what `load` does not refuse is told by the first action only.
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
    """A task on its way to a worker, and the version of us that planned it."""

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
        return  # what Spark makes of a plan without tasks
    require_version(partition.version)
    prepare_worker()
    from stratalog.jobs.reading.arrow import with_nullability
    from stratalog.jobs.reading.read import read_task

    yield from with_nullability(read_task(partition.task, columns), nullable)


def schema_of(columns: tuple[str, ...]) -> str:
    """These columns as Spark's DDL has them."""
    return ", ".join(f"{name} {SPARK_TYPES[_known(name)]}" for name in columns)


def checked_columns(schema: StructType) -> tuple[str, ...]:
    """The names in a schema, each a column that there is, once and of its type; else UsageError."""
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
    """UsageError for a name that is twice in a schema: Spark ends with a failure of its own over it."""
    names = schema.fieldNames()
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"the schema has the column {', '.join(twice)} more than once.")


def _known(name: str) -> str:
    if name not in SPARK_TYPES:
        raise UsageError(f"there is no column {name}; there are {', '.join(SPARK_TYPES)}.")
    return name
