"""`stratalog.spark.read`: a read that prunes columns and times, in one call."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stratalog.errors import UsageError
from stratalog.files.entries import Path
from stratalog.files.storage import readable_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Time = datetime | int | str
"""A point in time: a datetime (UTC if it has no zone), milliseconds since 1970, or ISO 8601."""


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
    """A DataFrame of Kafka log directories that reads only what is asked for.

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


def option_texts(
    path: Path | Sequence[Path],
    *,
    topics: str | Iterable[str] | None = None,
    since: Time | None = None,
    until: Time | None = None,
    **options: object,
) -> dict[str, str]:
    """The arguments of `read` as options of the source."""
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    given = {name: _text(value) for name, value in options.items()}
    if topics is not None:
        given["subscribe"] = topics if isinstance(topics, str) else ",".join(topics)
    if since is not None:
        given["startingTimestamp"] = str(_milliseconds("since", since))
        given.setdefault("startingOffsetsByTimestampStrategy", "latest")
    if until is not None:
        given["endingTimestamp"] = str(_milliseconds("until", until))
    given["paths"] = json.dumps([readable_path(each) for each in paths])
    return given


def _milliseconds(name: str, time: Time) -> int:
    if isinstance(time, bool):
        raise UsageError(f"{name} is {time}: it must be a time.")
    if isinstance(time, int):
        return time
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError:
            raise UsageError(f"{name} is {time!r}: write it like 2026-11-15T12:00:00+01:00.") from None
    zoned = time if time.tzinfo else time.replace(tzinfo=UTC)
    # Records have milliseconds: within one, a record before this time cannot be told from one after it.
    return int(zoned.timestamp()) * 1000 + zoned.microsecond // 1000


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
