"""Which member of a group has which partitions, from the records that the newer protocols write for members.

For a classic group, the record of the group has the partitions of each member (see the table of members).
The consumer and the share protocol write a record for each member, with topic ids instead of names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from stratalog.directory.partitions import FoundPartition
from stratalog.errors import DiskError
from stratalog.files.reading import DiskReader
from stratalog.jobs.reading.omissions import ignore_omission
from stratalog.jobs.reading.split import topic_id_of
from stratalog.tables.internal import COMMITS, state_source

_KIND = "GROUP_CURRENT_MEMBER_ASSIGNMENT"
_SCHEMA = pa.schema([("group", pa.string()), ("memberId", pa.string()), ("value", pa.string())])


def topics_by_id(disk: DiskReader, partitions: Iterable[FoundPartition]) -> dict[str, str]:
    """The names of the topics that have a partition here, by their ids.

    Ids that cannot be read are left out: they may be of topics that no group reads.
    """
    found = {}
    for each in partitions:
        with suppress(DiskError):
            topic_id = topic_id_of(disk, each.directory)
            if topic_id is not None:
                found[topic_id] = each.topic_partition.topic
    return found


def current_assignments(
    paths: Sequence[str], topics: Mapping[str, str]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """The partitions of each (group, member) with such a record, except those of topics not in `topics`."""
    source = state_source(list(paths), COMMITS, "fail", _SCHEMA, _assignments)
    found = {}
    for row in source.compute(ignore_omission).to_pylist():
        assigned = json.loads(row["value"]).get("assignedPartitions") or ()
        found[row["group"], row["memberId"]] = tuple(
            f"{topics[each['topicId']]}-{number}"
            for each in assigned
            if each["topicId"] in topics
            for number in each["partitions"]
        )
    return found


def _assignments(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.ends_with(pc.field("kind"), _KIND)).select(_SCHEMA.names)
