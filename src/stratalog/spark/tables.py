"""Kafka's internal topics as DataFrames: every record decoded, or only the current state.

    spark.read.format("stratalog").option("decode", "consumer_offsets").load("/var/lib/kafka")
    commits(spark, "/var/lib/kafka").where("group = 'billing'").show()

The first line returns a row for each record. The functions return a row for each group, commit and so on that
exists: only the newest record of each key is used, and a record without a value deletes its key. A
coordinator that loads the topic sees the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from stratalog.errors import UsageError
from stratalog.files.entries import Path
from stratalog.files.storage import readable_path
from stratalog.jobs.reading.options import ReadOptions
from stratalog.spark.source import check_once, task_of, task_partitions
from stratalog.spark.telling import teller
from stratalog.spark.workers import prepare_worker
from stratalog.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from stratalog.jobs.reading.omissions import Omission

Paths = Path | Sequence[Path]


class TableReader(DataSourceReader):
    """Reads an internal topic as the source does, and decodes its records in the workers."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, tell_to: str | None = None) -> None:
        self._tell_to = tell_to
        self._options = ReadOptions.parse(options)
        assert self._options.table is not None
        self._table = self._options.table
        self._columns = _checked_columns(self._table, schema)
        self._nullable = [field.nullable for field in schema.fields]

    def partitions(self) -> list[InputPartition]:
        prepare_worker()
        from stratalog.jobs.metadata_snapshot import plan_table

        omissions: list[Omission] = []
        return task_partitions(plan_table(self._options, on_omission=omissions.append), omissions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        tell = teller(self._tell_to)
        task = task_of(partition, tell)
        if task is None:
            return
        from stratalog.jobs.metadata_snapshot import read_table_task
        from stratalog.jobs.reading.arrow import with_nullability
        from stratalog.jobs.tables import SOURCE_COLUMNS, TABLES, decoded

        records = read_table_task(task, SOURCE_COLUMNS, on_omission=tell)
        rows = decoded(TABLES[self._table], records, self._columns)
        yield from with_nullability(rows, self._nullable)


def table_schema(table: str) -> str:
    """The columns of a table in Spark's DDL."""
    return ", ".join(f"{name} {spark_type}" for name, spark_type in _spark_types(table).items())


def spark_type(kind: pa.DataType) -> str:
    """Spark's name for an Arrow type."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        # Names are in backquotes, because Spark requires that unless they are plain words.
        fields = (f"`{field.name}`:{spark_type(field.type)}" for field in kind)
        return f"struct<{','.join(fields)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_type(kind.key_type)},{spark_type(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_fixed_size_binary(kind):
        return "binary"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    return _SPARK_NAMES[str(kind)]


_SPARK_NAMES = {
    "null": "void",
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date32[day]": "date",
}


def commits(spark: SparkSession, path: Paths) -> DataFrame:
    """The committed offset of each group and partition; aborted transactions do not count."""
    return _table(spark, path, "commits")


def groups(spark: SparkSession, path: Paths) -> DataFrame:
    """The groups that have had members; a group that only committed offsets is only in `commits`."""
    return _table(spark, path, "groups")


def members(spark: SparkSession, path: Paths) -> DataFrame:
    """The members of groups; those of a classic group with their assignment by topic."""
    return _table(spark, path, "members")


def transactions(spark: SparkSession, path: Paths) -> DataFrame:
    """The state of each transactional id."""
    return _table(spark, path, "transactions")


def partitions(spark: SparkSession, path: Paths) -> DataFrame:
    """Each partition with its offsets, size and times."""
    return _table(spark, path, "partitions")


def lag(spark: SparkSession, path: Paths) -> DataFrame:
    """How many offsets each group has yet to consume, in each partition for which it has committed."""
    return _table(spark, path, "lag")


def _table(spark: SparkSession, path: Paths, name: str) -> DataFrame:
    """A table of `stratalog.tables`, which one worker reads: only the newest records are decoded."""
    from stratalog.tables import SCHEMAS

    planned_by = __version__
    given = [path] if isinstance(path, str | os.PathLike) else path
    paths = [readable_path(each) for each in given]

    def read_table(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from stratalog import tables
        from stratalog.spark.workers import prepare_worker, require_version

        require_version(planned_by)
        prepare_worker()
        yield from getattr(tables, name)(paths).to_batches()

    ddl = ", ".join(f"`{field.name}` {spark_type(field.type)}" for field in SCHEMAS[name])
    return spark.range(0, 1, 1, 1).mapInArrow(read_table, ddl)


def _checked_columns(table: str, schema: StructType) -> tuple[str, ...]:
    """The names in a schema; UsageError if one is not a column of the table, or has another type."""
    check_once(schema)
    known = _spark_types(table)
    for field in schema.fields:
        if field.name not in known:
            raise UsageError(f"{table} has no column {field.name}; it has {', '.join(known)}.")
        wanted = known[field.name].replace("`", "")
        if field.dataType.simpleString() != wanted:
            raise UsageError(
                f"the column {field.name} of {table} is {wanted}, not {field.dataType.simpleString()}: read "
                "it as it is, and cast it in the query."
            )
    return tuple(schema.fieldNames())


def _spark_types(table: str) -> dict[str, str]:
    from stratalog.jobs.tables import TABLES

    return {field.name: spark_type(field.type) for field in TABLES[table].schema}
