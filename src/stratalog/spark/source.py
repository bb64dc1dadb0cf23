"""The `stratalog` data source: Kafka log directories as DataFrames, without a broker.

    spark.read.format("stratalog").option("subscribe", "orders").load("/var/lib/kafka")

This module is thin: `jobs/reading` plans and does a read. Spark imports this module in every process that
plans, so heavy modules are imported only in functions that use them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    CaseInsensitiveDict,
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
from stratalog.spark.telling import ADDRESS_OPTION, teller
from stratalog.spark.workers import adapt_daemon, prepare_worker, require_version
from stratalog.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

    from stratalog.jobs.decoding.finding import Decodings
    from stratalog.jobs.metadata_snapshot import TableTask
    from stratalog.jobs.reading.omissions import Omission, OnOmission

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


NO_TABLE = (
    "CREATE TABLE ... USING stratalog does not work: when Spark reads the table, it gives the source none of "
    "the table's options. Use CREATE TEMPORARY VIEW name USING stratalog OPTIONS (path '/var/lib/kafka', "
    "subscribe 'orders')."
)


class StratalogSource(DataSource):
    """The data source behind `format("stratalog")`."""

    def __init__(self, options: CaseInsensitiveDict) -> None:
        given = {name: value for name, value in options.items() if name.lower() != ADDRESS_OPTION.lower()}
        super().__init__(CaseInsensitiveDict(given))
        self._tell_to = options.get(ADDRESS_OPTION)
        adapt_daemon()  # Spark makes a source for each `load`, in a worker that it uses again

    @classmethod
    def name(cls) -> str:
        return "stratalog"

    def schema(self) -> str:
        if "provider" in self.options:  # a property of tables
            raise UsageError(NO_TABLE)
        # Options are checked here too, so that `load` raises the error and not the first action.
        options = ReadOptions.parse(self.options, streaming=None)
        if options.table is not None:
            from stratalog.spark.tables import table_schema

            return table_schema(options.table)
        given, schema = planned_schema(self.options, options)
        self.options.update(given)
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        if not self.options:
            raise UsageError(f"no directory is given. {NO_TABLE}")
        if self.options.get("decode") is not None:
            from stratalog.spark.tables import TableReader

            return TableReader(self.options, schema, tell_to=self._tell_to)
        return StratalogReader(self.options, schema, tell_to=self._tell_to)

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
    """A task for a worker, and the version of Stratalog that planned it.

    `omissions` is what the plan leaves out. Only a worker can report it: if the plan has no tasks, a worker
    without a task does.
    `decodings` say how keys and values are decoded; None if they stay bytes.
    """

    def __init__(
        self, task: TableTask | None, omissions: Sequence[Omission], decodings: Decodings | None = None
    ) -> None:
        super().__init__(None)
        self.version = __version__
        self.task = task
        self.omissions = tuple(omissions)
        self.decodings = decodings


def task_partitions(
    tasks: Sequence[TableTask], omissions: Sequence[Omission] = (), decodings: Decodings | None = None
) -> list[InputPartition]:
    """The partitions of a plan; the first one reports what the plan leaves out."""
    if omissions and not tasks:
        return [TaskPartition(None, omissions)]
    return [TaskPartition(task, () if number else omissions, decodings) for number, task in enumerate(tasks)]


def task_of(partition: InputPartition, tell: OnOmission) -> TableTask | None:
    """The task of a partition, in a worker; None if there is nothing to read."""
    if not isinstance(partition, TaskPartition):
        return None  # Spark passes None for a plan without tasks
    require_version(partition.version)
    prepare_worker()
    for omission in partition.omissions:
        tell(omission)
    return partition.task


class StratalogReader(DataSourceReader):
    """Plans on the driver, reads in the workers."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, tell_to: str | None = None) -> None:
        self._options = ReadOptions.parse(options)
        self._columns = checked_columns(schema, known_types(self._options))
        self._nullable = [field.nullable for field in schema.fields]
        self._tell_to = tell_to

    def partitions(self) -> list[InputPartition]:
        prepare_worker()
        from stratalog.jobs.reading.plan import plan_read

        omissions: list[Omission] = []
        tasks = plan_read(self._options, on_omission=omissions.append)
        # After the plan: by then every schema that the planned records need is registered.
        decodings = found_decodings(self._options, omissions.append)
        return task_partitions(tasks, omissions, decodings)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._columns, self._nullable, self._tell_to)


def read_partition(
    partition: InputPartition, columns: tuple[str, ...], nullable: list[bool], tell_to: str | None = None
) -> Iterator[pa.RecordBatch]:
    """The records of a task, in a worker."""
    tell = teller(tell_to)
    task = task_of(partition, tell)
    if task is None:
        return
    from stratalog.jobs.metadata_snapshot import read_table_task
    from stratalog.jobs.reading.arrow import with_nullability

    decodings = partition.decodings if isinstance(partition, TaskPartition) else None
    if decodings is None:
        batches = read_table_task(task, columns, on_omission=tell)
    else:
        from stratalog.jobs.decoding.columns import DecodedColumns

        # Without a listener nothing is reported here: the columns beside a key or value have the reasons.
        on_omission = None if tell_to is None else tell
        decoded = DecodedColumns(names=columns, decodings=decodings, on_omission=on_omission)
        batches = decoded.batches(read_table_task(task, decoded.to_read, on_omission=tell))
    yield from with_nullability(batches, nullable)


def found_decodings(options: ReadOptions, on_omission: OnOmission | None = None) -> Decodings | None:
    """How keys and values are decoded; None if both stay bytes."""
    if not options.is_decoded:
        return None
    prepare_worker()
    from stratalog.jobs.decoding.finding import find_decodings
    from stratalog.jobs.reading.omissions import ignore_omission

    return find_decodings(options, on_omission=on_omission or ignore_omission)


def planned_schema(
    given: Mapping[str, str], options: ReadOptions, columns: Sequence[str] | None = None
) -> tuple[dict[str, str], str]:
    """(the options with the reader schemas named, so that they stay the same; the columns in Spark's DDL)."""
    decodings = found_decodings(options)
    known = _types_with(decodings)
    names = options.columns if columns is None else columns
    schema = ", ".join(f"`{name}` {known[_known(name, known)]}" for name in names)
    if decodings is None:
        return dict(given), schema
    from stratalog.jobs.decoding.finding import reader_options

    return {**given, **reader_options(decodings)}, schema


def known_types(options: ReadOptions) -> Mapping[str, str]:
    """All columns that a read with these options can have, with their types in Spark."""
    return _types_with(found_decodings(options))


def _types_with(decodings: Decodings | None) -> Mapping[str, str]:
    if decodings is None:
        return SPARK_TYPES
    from stratalog.jobs.decoding.columns import known_columns
    from stratalog.spark.tables import spark_type

    return {name: spark_type(kind) for name, kind in known_columns(decodings).items()}


def checked_columns(schema: StructType, known: Mapping[str, str] = SPARK_TYPES) -> tuple[str, ...]:
    """The names in a schema; UsageError if one is unknown, is there twice or has another type."""
    check_once(schema)
    for field in schema.fields:
        wanted = known[_known(field.name, known)].replace("`", "")
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


def _known(name: str, known: Mapping[str, str]) -> str:
    if name not in known:
        raise UsageError(f"there is no column {name}; the columns are {', '.join(known)}.")
    return name
