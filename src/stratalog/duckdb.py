"""Runs a query over log directories with DuckDB, in this process: for `stratalog sql --backend duckdb`.

The views are the same as on Spark. Each is an Arrow dataset, so DuckDB decodes only the columns that a query
needs, and reads only the partitions, offsets and times that can match.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from stratalog import tables
from stratalog.errors import MissingDependencyError, StratalogError, UsageError
from stratalog.files.entries import Path
from stratalog.files.storage import reader_for
from stratalog.installing import install_command
from stratalog.jobs.decoding.asked import AskedDecoding
from stratalog.jobs.reading.catalog import all_partitions
from stratalog.jobs.reading.omissions import OnOmission
from stratalog.jobs.reading.options import TABLE_TOPICS, ReadOptions, listed
from stratalog.scanning.dataset import ScanDataset
from stratalog.scanning.in_order import cores
from stratalog.scanning.scan import Scan
from stratalog.scanning.sources import RecordSource, Source
from stratalog.scanning.view_names import is_named, two_meanings

try:
    import duckdb
except ImportError as error:
    raise MissingDependencyError(
        f"this needs DuckDB, which is not installed: {install_command('duckdb')}"
    ) from error

__all__ = ["answer"]

RECORDS, PARTITIONS = "kafka_records", "kafka_partitions"
# The tables of each internal topic; the two above exist for every directory.
TABLES: Mapping[str, Mapping[str, Callable[[Sequence[Path]], Scan]]] = {
    "consumer_offsets": {
        "kafka_commits": tables.commits,
        "kafka_groups": tables.groups,
        "kafka_members": tables.members,
        "kafka_lag": tables.lag,
    },
    "transaction_state": {"kafka_transactions": tables.transactions},
    "cluster_metadata": {"kafka_metadata": tables.cluster_metadata},
}
OWN_VIEWS = {RECORDS, PARTITIONS, *(name for made in TABLES.values() for name in made)}
# Spark accepts these words as names, DuckDB only in double quotes.
_BARE = re.compile(r"""(?<!["\w])(offset|group)(?!["\w]|\s+by\b|\s+\d)""", re.IGNORECASE)


class _View(NamedTuple):
    """A table that a query can name: a topic, or one of `OWN_VIEWS`."""

    name: str
    source: Source
    columns: Sequence[str]


def answer(options: ReadOptions, query: str, on_omission: OnOmission, *, rows: int | None = None) -> pa.Table:
    """The result of a query, at most `rows` rows of it. The options apply to topics.

    UsageError says why DuckDB refuses the query.
    """
    errors: list[StratalogError] = []
    with duckdb.connect() as connection:
        # A query must not find this program's variables as tables.
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET TimeZone = 'UTC'")
        for view in _views(options, _reader_of(connection, query)):
            dataset = ScanDataset(view.source, view.columns, on_omission, errors.append)
            connection.register(view.name, dataset)
        try:
            found = connection.sql(query)
            if found is None:  # a statement without a result
                return pa.table({})
            return (found if rows is None else found.limit(rows)).to_arrow_table()
        except duckdb.Error as error:
            if errors:  # our own errors; DuckDB keeps only their text
                raise errors[0] from error
            raise UsageError(_missing_topic(options, error) or _in_words(query, error)) from error


def _reader_of(connection: duckdb.DuckDBPyConnection, query: str) -> Callable[[str], bool]:
    """A function that says whether the query reads the view with this name, or may read it."""
    try:
        names = {name.lower() for name in connection.get_table_names(query)}
    except duckdb.Error:  # raised for some valid queries too
        return lambda name: is_named(name, query)
    return lambda name: name.lower() in names


def _views(options: ReadOptions, is_read: Callable[[str], bool]) -> Iterator[_View]:
    """A view for each topic and table. UsageError if the query reads one of two that differ only in case."""
    by_name: dict[str, list[_View]] = {}
    for view in _all_views(options, is_read):
        by_name.setdefault(view.name.lower(), []).append(view)
    for lowered, views in by_name.items():
        if len(views) == 1:
            yield views[0]
        elif is_read(lowered):
            if lowered in OWN_VIEWS:
                raise UsageError(two_meanings(views[0].name))
            names = " and ".join(view.name for view in views)
            raise UsageError(
                f"{names} are the same name in SQL: query {RECORDS} WHERE topic = '{views[-1].name}' instead."
            )


def _all_views(options: ReadOptions, is_read: Callable[[str], bool]) -> Iterator[_View]:
    disk, paths = reader_for(*options.paths), list(options.paths)
    topics = sorted({found.topic_partition.topic for found in all_partitions(disk, options)})
    views = [(name, replace(options, topics=(name,))) for name in topics]
    for name, asked in [*views, (RECORDS, options)]:
        if not is_read(name):  # a topic that the query does not read may have no schema
            asked = replace(asked, key=AskedDecoding(), value=AskedDecoding())
        yield _View(name, RecordSource(options=asked, threads=cores(), disk=disk), asked.columns)
    scans: dict[str, Callable[[Sequence[Path]], Scan]] = {PARTITIONS: tables.partitions}
    for table, made in TABLES.items():
        scans |= made if TABLE_TOPICS[table] in topics else {}
    for name, make in scans.items():
        scan = make(paths)
        yield _View(name, scan.source, scan.columns)


def _missing_topic(options: ReadOptions, error: duckdb.Error) -> str | None:
    """What to say about a table of a topic that the directories do not have; None for any other error."""
    said = str(error).lower()
    for table, made in TABLES.items():
        for name in made:
            if f"table with name {name} does not exist" in said:
                return (
                    f"{name} is read from the topic {TABLE_TOPICS[table]}, which is not in "
                    f"{listed(options.paths)}: add the log directory that has it."
                )
    return None


def _in_words(query: str, error: duckdb.Error) -> str:
    bare = _BARE.search(query) if "syntax error" in str(error) else None
    hint = f' In DuckDB the column is written "{bare[1]}", in double quotes.' if bare else ""
    return f"DuckDB cannot run this query: {str(error).strip()}{hint}"
