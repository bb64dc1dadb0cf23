"""`stratalog.spark.read`: a read in one call that leaves out unneeded columns and times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from stratalog.files.entries import Path
from stratalog.jobs.reading.arguments import Time, option_texts
from stratalog.spark.engine import context_of
from stratalog.spark.registering import naming_the_python, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

    from stratalog.jobs.reading.omissions import OnOmission
    from stratalog.jobs.reading.options import ReadOptions


def read(
    spark: SparkSession,
    path: Path | Sequence[Path],
    *,
    topics: str | Iterable[str] | None = None,
    since: Time | None = None,
    until: Time | None = None,
    columns: Sequence[str] | None = None,
    on_omission: OnOmission | None = None,
    **options: object,
) -> DataFrame:
    """A DataFrame of Kafka log directories that reads only the requested topics, times and columns.

    `since` and `until` bound each partition as Kafka finds offsets by time: from its first record at or after
    `since`, up to its first record at or after `until`. Only `columns` are read; with an empty list rows can
    be counted. Any other keyword is an option of the source.

    With onCorruption=skip or failOnDataLoss=false, `on_omission` is called for each place that an action
    leaves out, in another thread, before the action returns; by default the read warns (OmissionWarning). The
    same applies to keys and values that cannot be decoded. On a cluster, a query that stops early, as with a
    LIMIT, may not report all places.

        read(spark, "/var/lib/kafka", topics="orders", since="2026-11-15T12:00", columns=["value"])
    """
    from pyspark.sql.types import StructType

    from stratalog.jobs.reading.options import ReadOptions
    from stratalog.spark.source import planned_schema

    given = option_texts(path, topics=topics, since=since, until=until, **options)
    parsed = ReadOptions.parse(given)  # so that an error is raised here, with its own type
    # The columns of a table are fixed. The schemas that decode keys and values are on the machine with the
    # log directories, and with Spark Connect that is the server. So for a table, and for decoded values with
    # Connect, Spark gets the columns from the source.
    if parsed.table is not None or (parsed.is_decoded and context_of(spark) is None):
        with naming_the_python(spark):
            frame = reader_of(spark, given, parsed, on_omission).load()
            return frame if columns is None else frame.select(*columns)
    named, schema = planned_schema(given, parsed, columns)
    reader = reader_of(spark, named, parsed, on_omission)
    with naming_the_python(spark):
        return reader.schema(schema or StructType([])).load()


def reader_of(
    spark: SparkSession,
    given: Mapping[str, str],
    parsed: ReadOptions,
    on_omission: OnOmission | None = None,
) -> DataFrameReader:
    """The reader of a session, with the source registered, which reports what it leaves out."""
    from stratalog.spark.listening import Listener, Warner
    from stratalog.spark.telling import ADDRESS_OPTION

    register(spark)
    reader = spark.read.format("stratalog").options(**given)
    if parsed.may_omit or parsed.is_decoded:
        reader = reader.option(ADDRESS_OPTION, Listener(spark, on_omission or Warner()).address)
    return reader
