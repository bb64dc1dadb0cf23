"""`stratalog.spark.read`: a read that prunes columns and times, in one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from stratalog.files.entries import Path
from stratalog.jobs.reading.arguments import Time, option_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(
    spark: SparkSession,
    path: Path | Sequence[Path],
    *,
    topics: str | Iterable[str] | None = None,
    since: Time | None = None,
    until: Time | None = None,
    columns: Sequence[str] | None = None,
    **options: object,
) -> DataFrame:
    """A DataFrame of Kafka log directories that reads only the requested topics, times and columns.

    `since` and `until` bound each partition as Kafka finds offsets by time: from its first record that is not
    before `since` up to its first one that is not before `until`. Only `columns` are read; with an empty list
    rows can be counted. Any other keyword is an option of the source.

        read(spark, "/var/lib/kafka", topics="orders", since="2026-11-15T12:00", columns=["value"])
    """
    from pyspark.sql.types import StructType

    from stratalog.jobs.reading.options import ReadOptions
    from stratalog.spark.source import schema_of

    given = option_texts(path, topics=topics, since=since, until=until, **options)
    parsed = ReadOptions.parse(given)  # so that an error is raised here, with its own type
    reader = spark.read.format("stratalog").options(**given)
    if parsed.table is not None:  # a table has its own columns
        return reader.load() if columns is None else reader.load().select(*columns)
    if columns is None:
        columns = parsed.columns
    return reader.schema(schema_of(tuple(columns)) if columns else StructType([])).load()
