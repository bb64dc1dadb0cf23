"""Kafka's internal topics as scans: every record decoded, or only the current state.

    stratalog.tables.commits("/var/lib/kafka").to_table()

The current state has a row for each group, commit and so on that exists: only the newest record of each key
is used, and a record without a value deletes its key. A coordinator that loads the topic sees the same. Only
the newest records are decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stratalog.files.storage import reader_for
from stratalog.jobs.reading.narrowing import everything
from stratalog.jobs.reading.omissions import OnOmission
from stratalog.jobs.reading.options import ReadOptions
from stratalog.jobs.tables import SOURCE_COLUMNS, TABLES, decoded
from stratalog.scanning.asking import OnDamage
from stratalog.scanning.in_order import cores
from stratalog.scanning.latest import LatestSource
from stratalog.scanning.scan import Scan
from stratalog.scanning.sources import RecordSource, Source
from stratalog.scanning.words import python_words
from stratalog.tables.sources import ComputedSource, DecodedSource, LogPaths, table_options

COMMITS, TRANSACTIONS, METADATA = "consumer_offsets", "transaction_state", "cluster_metadata"
_GROUP_KIND = r"^((CONSUMER|SHARE|STREAMS)_)?GROUP_METADATA$"
_MEMBER_KIND = r"^(GROUP_METADATA|.*GROUP_MEMBER_METADATA)$"
_CLASSIC = "GROUP_METADATA"
# For each table: the name of each column, and the column of the decoded records that it comes from.
_OF_COMMITS = {
    "group": "group",
    "topic": "committedTopic",
    "partition": "committedPartition",
    "offset": "committedOffset",
    "metadata": "committedMetadata",
    "committedAt": "committedAt",
}
_OF_GROUPS = ("generation", "protocolType", "protocol", "leader", "timestamp")
_OF_TRANSACTIONS = (
    "transactionalId",
    "producerId",
    "producerEpoch",
    "status",
    "timeoutMs",
    "partitions",
    "updatedAt",
    "startedAt",
)
_OFFSETS, _STATES = TABLES[COMMITS].schema, TABLES[TRANSACTIONS].schema
_MEMBER = _OFFSETS.field("members").type.value_type
_GROUP_FIELDS = [("group", pa.string()), ("type", pa.string())]
COMMIT_SCHEMA = pa.schema([(name, _OFFSETS.field(of).type) for name, of in _OF_COMMITS.items()])
GROUP_SCHEMA = pa.schema([*_GROUP_FIELDS, *((name, _OFFSETS.field(name).type) for name in _OF_GROUPS)])
MEMBER_SCHEMA = pa.schema([*_GROUP_FIELDS, *((field.name, field.type) for field in _MEMBER)])
TRANSACTION_SCHEMA = pa.schema([(name, _STATES.field(name).type) for name in _OF_TRANSACTIONS])


def consumer_offsets(paths: LogPaths, *, on_corruption: OnDamage = "fail") -> Scan:
    """The records of __consumer_offsets: commits, groups and their members."""
    return _decoded(paths, COMMITS, on_corruption)


def transaction_state(paths: LogPaths, *, on_corruption: OnDamage = "fail") -> Scan:
    """The records of __transaction_state."""
    return _decoded(paths, TRANSACTIONS, on_corruption)


def cluster_metadata(paths: LogPaths, *, on_corruption: OnDamage = "fail") -> Scan:
    """The records of __cluster_metadata, from the oldest snapshot on if its beginning was deleted."""
    return _decoded(paths, METADATA, on_corruption)


def commits(paths: LogPaths, *, on_corruption: OnDamage = "fail") -> Scan:
    """The committed offset of each group and partition; aborted transactions do not count."""
    return _scan(lambda: commit_source(paths, on_corruption))


def groups(paths: LogPaths, *, on_corruption: OnDamage = "fail") -> Scan:
    """The groups that have had members; a group that only committed offsets is only in `commits`."""
    return _scan(lambda: state_source(paths, COMMITS, on_corruption, GROUP_SCHEMA, _groups))


def members(paths: LogPaths, *, on_corruption: OnDamage = "fail") -> Scan:
    """The members of groups; those of a classic group with their assignment by topic."""
    return _scan(lambda: state_source(paths, COMMITS, on_corruption, MEMBER_SCHEMA, _members))


def transactions(paths: LogPaths, *, on_corruption: OnDamage = "fail") -> Scan:
    """The state of each transactional id."""
    shape = TRANSACTION_SCHEMA, _transactions
    return _scan(lambda: state_source(paths, TRANSACTIONS, on_corruption, *shape))


def _decoded(paths: LogPaths, table: str, on_corruption: str) -> Scan:
    return _scan(lambda: DecodedSource(options=table_options(paths, table, onCorruption=on_corruption)))


def _scan(make: Callable[[], Source]) -> Scan:
    with python_words():
        source = make()
        return Scan(source, source.schema.names)


def state_source(
    paths: LogPaths, table: str, on_corruption: str, schema: pa.Schema, shape: Callable[[pa.Table], pa.Table]
) -> ComputedSource:
    """The newest records of an internal topic, in the shape of a table."""
    options = table_options(paths, table, onCorruption=on_corruption, isolation="read_committed")
    return ComputedSource(schema=schema, compute=lambda tell: shape(_newest(options, tell)))


def commit_source(paths: LogPaths, on_corruption: str) -> ComputedSource:
    """What `commits` reads."""
    return state_source(paths, COMMITS, on_corruption, COMMIT_SCHEMA, _commits)


def _newest(options: ReadOptions, on_omission: OnOmission) -> pa.Table:
    """The newest record of each key, decoded, without tombstones."""
    assert options.table is not None
    table = TABLES[options.table]
    records = RecordSource(options=options, threads=cores(), disk=reader_for(*options.paths))
    found = LatestSource(records=records, tombstones=False).batches(
        SOURCE_COLUMNS, narrowing=everything, on_omission=on_omission
    )
    rows = pa.Table.from_batches(decoded(table, found, table.schema.names), schema=table.schema)
    return rows.filter(pc.field("key").is_valid())


def _commits(rows: pa.Table) -> pa.Table:
    found = rows.filter(pc.ends_with(pc.field("kind"), "OFFSET_COMMIT"))
    return found.select(list(_OF_COMMITS.values())).rename_columns(list(_OF_COMMITS))


def _groups(rows: pa.Table) -> pa.Table:
    found = rows.filter(pc.match_substring_regex(pc.field("kind"), _GROUP_KIND))
    return _with_types(found).select(GROUP_SCHEMA.names)


def _members(rows: pa.Table) -> pa.Table:
    found = _with_types(rows.filter(pc.match_substring_regex(pc.field("kind"), _MEMBER_KIND)))
    lists = found["members"].combine_chunks()
    parents = pc.list_parent_indices(lists)
    each: dict[str, Any] = {name: found[name].take(parents) for name in ("group", "type")}
    values = pc.list_flatten(lists)
    for number, field in enumerate(_MEMBER):
        each[field.name] = pc.struct_field(values, [number])
    return pa.table(each)


def _transactions(rows: pa.Table) -> pa.Table:
    return rows.select(list(_OF_TRANSACTIONS))


def _with_types(rows: pa.Table) -> pa.Table:
    """Add a column for the protocol of each group: classic, consumer, share or streams."""
    kinds = rows["kind"]
    first = pc.utf8_lower(pc.list_element(pc.split_pattern(kinds, "_"), 0))
    return rows.append_column("type", pc.if_else(pc.equal(kinds, _CLASSIC), "classic", first))
