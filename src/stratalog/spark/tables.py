"""Kafka's internal topics as DataFrames: every record decoded, or only the current state.

    spark.read.format("stratalog").option("decode", "consumer_offsets").load("/var/lib/kafka")
    commits(spark, "/var/lib/kafka").where("group = 'billing'").show()

The first gives a row for each record. The functions give a row for each thing that exists: the newest record
of each key counts, and a record without a value deletes its key. A coordinator that loads the topic sees the
same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from stratalog.errors import UsageError
from stratalog.files.entries import Path
from stratalog.jobs.reading.options import ReadOptions
from stratalog.spark.frames import read
from stratalog.spark.source import check_once, task_of, task_partitions
from stratalog.spark.telling import teller
from stratalog.spark.workers import prepare_worker

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
    newest = _newest(spark, path, "consumer_offsets").where("kind LIKE '%OFFSET_COMMIT'")
    return newest.selectExpr(
        "group",
        "committedTopic AS topic",
        "committedPartition AS partition",
        "committedOffset AS offset",
        "committedMetadata AS metadata",
        "committedAt",
    )


def groups(spark: SparkSession, path: Paths) -> DataFrame:
    """The groups that have had members; a group that only committed offsets is only in `commits`."""
    newest = _newest(spark, path, "consumer_offsets").where(
        "kind RLIKE '^((CONSUMER|SHARE|STREAMS)_)?GROUP_METADATA$'"
    )
    return newest.selectExpr(
        "group", f"{_GROUP_TYPE} AS type", "generation", "protocolType", "protocol", "leader", "timestamp"
    )


def members(spark: SparkSession, path: Paths) -> DataFrame:
    """The members of groups; those of a classic group with their assignment by topic."""
    newest = _newest(spark, path, "consumer_offsets").where(
        "kind = 'GROUP_METADATA' OR kind LIKE '%GROUP_MEMBER_METADATA'"
    )
    return newest.selectExpr("group", f"{_GROUP_TYPE} AS type", "inline(members)")


def transactions(spark: SparkSession, path: Paths) -> DataFrame:
    """The state of each transactional id."""
    return _newest(spark, path, "transaction_state").selectExpr(
        "transactionalId",
        "producerId",
        "producerEpoch",
        "status",
        "timeoutMs",
        "partitions",
        "updatedAt",
        "startedAt",
    )


_GROUP_TYPE = "CASE WHEN kind = 'GROUP_METADATA' THEN 'classic' ELSE lower(split_part(kind, '_', 1)) END"


def _newest(spark: SparkSession, path: Paths, table: str) -> DataFrame:
    """The last record of each key, without the keys whose last record is a tombstone."""
    records = read(spark, path, decode=table, isolation="read_committed")
    # Rows are ranked by offset: all records of a key are in one partition, so offsets order them.
    latest = "row_number() OVER (PARTITION BY kind, key ORDER BY offset DESC) AS place"
    ranked = records.where("key IS NOT NULL").selectExpr("*", latest)
    return ranked.where("place = 1 AND NOT isTombstone").drop("place")


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
