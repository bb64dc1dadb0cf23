"""Exports log directories: the tasks write Parquet themselves; Spark's writers write any other format.

    export(spark, "/var/lib/kafka", "/data/orders", topics="orders", value="json")

Each record is exported once, to folders by topic and day. A second run finishes one that was stopped, and
exports new records (`jobs/export.py`). Parquet is written where the records are read: no row enters the JVM.
Spark writes another format to the folder of the run, and the files are moved from there when all are
complete.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from stratalog.errors import UsageError
from stratalog.files.entries import Path
from stratalog.files.paths import join_path
from stratalog.jobs.decoding.asked import EncodingName
from stratalog.jobs.reading.arguments import Time, option_texts
from stratalog.spark.engine import SparkEngine, context_of, polling
from stratalog.spark.session import own_python
from stratalog.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from stratalog.engine.progress import OnProgress
    from stratalog.jobs.export import ExportReport, ExportTask
    from stratalog.jobs.exporting.folder import StagedFile, TaskNote
    from stratalog.jobs.exporting.rows import RowSettings
    from stratalog.jobs.reading.omissions import Omission
    from stratalog.jobs.reading.options import ReadOptions

PARQUET, CSV = "parquet", "csv"
PLACES = ("topic", "date")  # columns that are in the paths of files, not in the files
# By default Spark's CSV writer strips blanks from both ends of a text, and writes \" for a quote, where other
# readers expect the two quotes of RFC 4180.
CSV_OPTIONS = {"escape": '"', "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
# The name under which Spark reports how many rows it wrote.
COUNTS = "stratalog_export"


def export(
    spark: SparkSession,
    path: Path | Sequence[Path],
    target: Path,
    *,
    format: str = PARQUET,
    topics: str | Iterable[str] | None = None,
    since: Time | None = None,
    until: Time | None = None,
    columns: Sequence[str] | None = None,
    key: EncodingName = "binary",
    value: EncodingName = "binary",
    key_schema: Path | None = None,
    value_schema: Path | None = None,
    key_reader: Path | None = None,
    value_reader: Path | None = None,
    codec: str = "snappy",
    writer_options: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
    **options: object,
) -> ExportReport:
    """Export the records that a read with these options returns, unless the folder already has them.

    `key` and `value` say how their bytes are encoded. `key_schema` and `value_schema` say where the schemas
    are, `key_reader` and `value_reader` to which schema all keys or values are converted (docs/schemas.md).
    `codec` is for Parquet; other formats take Spark's `writer_options`. Any other keyword is an option of the
    source. If onCorruption is skip, the report and a warning say what was left out of a damaged log.
    """
    from stratalog.jobs.export import export_logs, run_export
    from stratalog.jobs.reading.omissions import warn_of

    asked, rows = prepare_export(
        path,
        format=format,
        topics=topics,
        since=since,
        until=until,
        columns=columns,
        writer_options=writer_options,
        **_given(
            keyEncoding=key,
            valueEncoding=value,
            keySchema=key_schema,
            valueSchema=value_schema,
            keyReader=key_reader,
            valueReader=value_reader,
        )
        | options,
    )
    engine = SparkEngine(spark)
    folder = os.fspath(target)
    if format == PARQUET:
        report = export_logs(
            engine, asked, folder, rows, codec=codec, cores=engine.cores, on_progress=on_progress
        )
    else:
        to_writer = {**(CSV_OPTIONS if format.lower() == CSV else {}), **(writer_options or {})}
        settings = {**rows.to_json(), "format": format, "writer_options": to_writer}
        run = _through_spark(spark, format, rows, to_writer, on_progress)
        report = run_export(run, asked, folder, rows, settings=settings, cores=engine.cores)
    warn_of(report.omissions, stacklevel=2)
    return report


def prepare_export(
    path: Path | Sequence[Path],
    *,
    format: str = PARQUET,
    topics: str | Iterable[str] | None = None,
    since: Time | None = None,
    until: Time | None = None,
    columns: Sequence[str] | None = None,
    writer_options: Mapping[str, str] | None = None,
    **options: object,
) -> tuple[ReadOptions, RowSettings]:
    """What an export with these arguments reads, and its rows; raises an error if an argument is wrong.

    The options of the source include how keys and values are decoded. The call needs no Spark, so a command
    can make it before it starts Spark.
    """
    from stratalog.files.storage import reader_for
    from stratalog.jobs.exporting.rows import row_settings
    from stratalog.jobs.reading.catalog import find_partitions
    from stratalog.jobs.reading.options import ReadOptions

    asked = ReadOptions.parse(option_texts(path, topics=topics, since=since, until=until, **options))
    if format == PARQUET and writer_options:
        raise UsageError(
            "writer options are for Spark's writers, and Parquet is not written by Spark: leave them out."
        )
    rows = row_settings(asked, columns)
    find_partitions(reader_for(*asked.paths), asked)
    return asked, rows


def _given(**options: Path | None) -> dict[str, object]:
    """The options that were given."""
    return {name: os.fspath(value) for name, value in options.items() if value is not None}


def _through_spark(
    spark: SparkSession,
    format_name: str,
    rows: RowSettings,
    writer_options: dict[str, str],
    on_progress: OnProgress | None,
) -> Callable[[Sequence[ExportTask]], Sequence[TaskNote]]:
    """Runs all tasks in one Spark job; Spark itself makes sure that each file is written once."""

    def run(tasks: Sequence[ExportTask]) -> Sequence[TaskNote]:
        from pyspark.sql import Observation

        from stratalog.files.disk import Disk
        from stratalog.jobs.exporting.folder import STATE, ExportFolder, TaskNote

        first = tasks[0]
        attempt = uuid.uuid4().hex
        staged = join_path(STATE, f"run-{first.run:06d}", "staged", f"spark-{attempt}")
        counts = Observation(COUNTS)
        frame = _writable(_frame(spark, tasks, rows, attempt), format_name).observe(counts, *_counting(rows))
        writer = frame.write.format(format_name).options(**writer_options).mode("overwrite")
        with _watched(spark, tasks, on_progress):
            # The scheme is needed: a cluster's default file system may be another one.
            writer.partitionBy(*PLACES).save("file://" + join_path(first.folder, staged))
        found = counts.get
        files = tuple(_written(first.folder, staged, first.run))
        return [
            TaskNote(
                files=files,
                rows=found["rows"],
                undecoded=found["undecoded"],
                omissions=ExportFolder(Disk(), first.folder).omissions(first.run, attempt),
            )
        ]

    return run


def _frame(spark: SparkSession, tasks: Sequence[ExportTask], rows: RowSettings, attempt: str) -> DataFrame:
    """The rows of all tasks, with one Spark task for each of ours.

    A task reports what it leaves out in the folder of the run, which the driver sees too.
    """
    import pyarrow as pa

    from stratalog.spark.tables import spark_type

    planned_by = __version__
    schema = pa.schema([*rows.schema, ("topic", pa.string()), ("date", pa.string())])

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from stratalog.files.disk import Disk
        from stratalog.jobs.exporting.folder import ExportFolder
        from stratalog.jobs.exporting.rows import NO_DATE, by_day
        from stratalog.spark.workers import prepare_worker, require_version

        require_version(planned_by)
        prepare_worker()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                task = tasks[number]
                omissions: list[Omission] = []
                for topic, day, found in by_day(task.read, task.rows, on_omission=omissions.append):
                    date = None if day == NO_DATE else day
                    places = [pa.array([each] * len(found), pa.string()) for each in (topic, date)]
                    yield pa.RecordBatch.from_arrays([*found.columns, *places], schema=schema)
                if omissions:
                    folder = ExportFolder(Disk(), task.folder)
                    folder.write_omissions(task.run, attempt, number, omissions)

    ddl = ", ".join(f"`{field.name}` {spark_type(field.type)}" for field in schema)
    with own_python(context_of(spark)):
        return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, ddl)


def _writable(frame: DataFrame, format_name: str) -> DataFrame:
    """The frame with columns that the format can hold: CSV has neither bytes nor nested types.

    Bytes become base64, as in Spark's JSON; nested values become JSON. Spark's writer leaves out a row that
    has only nulls, so the null of a single column becomes an empty text.
    """
    if format_name.lower() != CSV:
        return frame
    from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType

    is_single = len([name for name in frame.columns if name not in PLACES]) == 1

    def column(name: str) -> Column:
        kind = frame.schema[name].dataType
        if not isinstance(kind, BinaryType | ArrayType | MapType | StructType):
            # Of these, only columns that decoding makes can be null, and such a column is never the only one.
            return F.col(name)
        text = F.base64(name) if isinstance(kind, BinaryType) else F.to_json(name)
        return (F.coalesce(text, F.lit("")) if is_single else text).alias(name)

    return frame.select(*(column(name) for name in frame.columns))


def _counting(rows: RowSettings) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812

    undecoded = [F.count(name) for name in rows.undecoded_columns]
    return [F.count(F.lit(1)).alias("rows"), sum(undecoded, F.lit(0)).alias("undecoded")]


def _watched(
    spark: SparkSession, tasks: Sequence[ExportTask], on_progress: OnProgress | None
) -> AbstractContextManager[None]:
    """Reports the finished Spark tasks while the block runs, if Spark shows them."""
    from stratalog.engine.progress import Progress

    context = context_of(spark)
    if on_progress is None or context is None:
        return nullcontext()
    total = sum(task.size for task in tasks)

    def report(done: int) -> None:
        # Spark does not say which tasks are finished: all are of about equal size.
        on_progress(
            Progress(
                tasks_done=done,
                tasks_count=len(tasks),
                bytes_done=total * done // len(tasks),
                bytes_total=total,
            )
        )

    return polling(context, report)


def _written(root: str, staged: str, run: int) -> Iterator[StagedFile]:
    """The files that Spark's writer wrote, and their targets. Syncs them, because Spark does not."""
    from stratalog.files.disk import Disk, EntryKind
    from stratalog.jobs.exporting.folder import StagedFile

    disk = Disk()

    def below(folder: str) -> Iterator[str]:
        path = join_path(root, staged, folder)
        disk.sync_directory(path)
        for entry in disk.list_directory(path):
            inner = join_path(folder, entry.name)
            if entry.kind is EntryKind.DIRECTORY:
                yield from below(inner)
            elif not entry.name.startswith((".", "_")):  # Hadoop's checksums and its _SUCCESS file
                yield inner

    for name in below(""):
        place, file = os.path.split(name)
        source = join_path(staged, name)
        disk.sync(join_path(root, source))
        yield StagedFile(
            staged=source,
            target=join_path(place, f"run-{run:06d}-{file}"),
            rows=-1,  # Spark only counts the rows of all files together
            size=disk.size(join_path(root, source)),
        )
