"""Makes views for the topics that a query names, with only the columns that it needs.

    orders, `web.clicks`      a topic, with the columns of the source
    kafka_records             all topics except Kafka's internal ones
    kafka_commits, kafka_groups, kafka_members, kafka_transactions, kafka_metadata
                              what Kafka keeps in its internal topics, decoded
    kafka_partitions, kafka_lag
                              offsets, size and times of partitions; the lag of groups

Creating a view costs as much as planning a read, and Spark does not tell a source which columns a query
needs. So the topics and columns are found in the text of the query. A word that only looks like a name makes
a view that nobody needs, which costs a little time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from stratalog.errors import UsageError
from stratalog.files.entries import Path
from stratalog.jobs.reading.arguments import Time, option_texts
from stratalog.jobs.reading.options import TABLE_TOPICS, ReadOptions
from stratalog.scanning.view_names import is_named, two_meanings
from stratalog.spark import tables
from stratalog.spark.frames import read, reader_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stratalog.jobs.reading.omissions import OnOmission

RECORDS = "kafka_records"
METADATA = "kafka_metadata"
# The views of the current state, and the table of each.
CURRENT: dict[str, tuple[str, Callable[[SparkSession, Sequence[Path]], DataFrame]]] = {
    "kafka_commits": ("consumer_offsets", tables.commits),
    "kafka_groups": ("consumer_offsets", tables.groups),
    "kafka_members": ("consumer_offsets", tables.members),
    "kafka_transactions": ("transaction_state", tables.transactions),
    "kafka_lag": ("consumer_offsets", tables.lag),
}
PARTITIONS = "kafka_partitions"
_ALL_COLUMNS = re.compile(
    # A star, except that of count(*), and keywords that mean all columns without naming them.
    r"(?<!count\()\*|\b(table|natural|pivot|unpivot|identifier)\b|\|>"
    r"|(^|\(|\b(union|all|distinct|intersect|except|minus)\b)\s*from\b"
)


def make_views(
    spark: SparkSession,
    paths: Sequence[Path],
    query: str,
    *,
    since: Time | None = None,
    until: Time | None = None,
    on_omission: OnOmission | None = None,
    **options: object,
) -> list[str]:
    """Make the views that the query names; returns their names. Times and options are for the topics.

    `on_omission` is as for `stratalog.spark.read`.
    """
    given = option_texts(paths, topics=None, since=since, until=until, **options)
    topics = topics_of(paths)
    made: list[str] = []
    for name in view_names(query, topics):
        twin = next((other for other in made if other.lower() == name.lower()), None)
        if twin is not None:
            raise UsageError(
                f"{twin} and {name} are the same name in SQL: query {RECORDS} WHERE topic = '{name}' instead."
            )
        topic = None if name == RECORDS and name not in topics else name
        if name in topics or name == RECORDS:
            frame = _topic_frame(spark, given, topic, query, on_omission)
        elif name == METADATA:
            frame = read(spark, paths, decode="cluster_metadata")
        elif name == PARTITIONS:
            frame = tables.partitions(spark, paths)
        else:
            frame = CURRENT[name][1](spark, paths)
        frame.createOrReplaceTempView(f"`{name}`")
        made.append(name)
    return made


def check_views(
    paths: Sequence[Path],
    query: str,
    *,
    since: Time | None = None,
    until: Time | None = None,
    **options: object,
) -> None:
    """Raise what `make_views` would raise about paths, options and schemas. It needs no session."""
    from stratalog.spark.source import found_decodings

    given = option_texts(paths, topics=None, since=since, until=until, **options)
    topics = topics_of(paths)
    ReadOptions.parse(given)
    for name in view_names(query, topics):
        if name in topics:
            found_decodings(ReadOptions.parse({**given, "subscribe": name}))


def topics_of(paths: Sequence[Path]) -> list[str]:
    """The topics in log directories, internal ones too; UsageError for a path that is not a log directory."""
    from stratalog.files.storage import reader_for
    from stratalog.jobs.reading.catalog import expand_paths, find_partitions, partitions_in

    options = ReadOptions.parse(option_texts(paths))
    disk = reader_for(*options.paths)
    find_partitions(disk, options)  # refuses replicas of one partition
    found = (each for path in expand_paths(disk, options.paths) for each in partitions_in(disk, path))
    return sorted({each.topic_partition.topic for each in found})


def view_names(query: str, topics: Sequence[str]) -> list[str]:
    """The possible views whose names are in the query; all of them if the query lists views.

    UsageError if a topic and a view both have such a name.
    """
    tables_there = {name for name, topic in TABLE_TOPICS.items() if topic in topics}
    own = [RECORDS, PARTITIONS, *(name for name, (table, _) in CURRENT.items() if table in tables_there)]
    own += [METADATA] if "cluster_metadata" in tables_there else []
    every = dict.fromkeys([*topics, *own])
    if query.lower().lstrip().startswith("show"):
        return list(every)
    named = [name for name in every if is_named(name, query)]
    for topic in topics:
        if topic in named and topic.lower() in own:
            raise UsageError(two_meanings(topic))
    return named


def needed_columns(query: str, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that a query may need."""
    text = re.sub(r"\s+", " ", query.lower()).strip()
    text = re.sub(r"\bcount ?\( ?\* ?\)", "count(*)", text)
    if not text.startswith(("select ", "with ")) or _ALL_COLUMNS.search(text):
        return tuple(columns)
    return tuple(name for name in columns if re.search(rf"\b{name.lower()}\b", text))


def _topic_frame(
    spark: SparkSession,
    given: Mapping[str, str],
    topic: str | None,
    query: str,
    on_omission: OnOmission | None,
) -> DataFrame:
    from pyspark.sql.types import StructType

    from stratalog.spark.source import planned_schema

    asked = {**given, **({} if topic is None else {"subscribe": topic})}
    parsed = ReadOptions.parse(asked)
    columns = needed_columns(query, parsed.columns)
    named, schema = planned_schema(asked, parsed, columns)
    return reader_of(spark, named, parsed, on_omission).schema(schema or StructType([])).load()
