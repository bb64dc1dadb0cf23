"""Partitions whose folder is gone, or has no segment left, although a checkpoint knows their records."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from stratalog.directory.gone_logs import GoneLog, gone_logs, highest_line
from stratalog.directory.node import Node
from stratalog.operations.audit.audited_directory import AuditedDirectory
from stratalog.operations.audit.finding import AuditFinding
from stratalog.operations.audit.kinds import AuditKind
from stratalog.operations.audit.partition_state import PartitionState
from stratalog.operations.audit.spots import Spot
from stratalog.operations.words import sentence


def gone_partitions(
    directories: Sequence[AuditedDirectory], nodes: Mapping[str, Node], names: Collection[str]
) -> Iterator[AuditFinding]:
    """The partitions that are in no directory of their node; with `names`, only these and those of topics."""
    groups: dict[int, list[AuditedDirectory]] = {}
    for directory in directories:
        groups.setdefault(id(nodes[directory.path]), []).append(directory)
    for group in groups.values():
        for gone in gone_logs([found.listed for found in group], nodes[group[0].path]):
            name = str(gone.topic_partition)
            if not names or name in names or gone.topic_partition.topic in names:
                yield AuditFinding(
                    kind=AuditKind.LOST_PARTITION,
                    directory=gone.directory,
                    partition=name,
                    words=sentence(gone.words),
                    offset=gone.offset,
                )


def emptied(partition: PartitionState) -> list[Spot]:
    """A finding if the folder is there, and none of the segments that a checkpoint knows of."""
    key, facts = partition.task.topic_partition, partition.facts
    if facts is None or facts.segments or str(key) != partition.task.name:
        return []
    marks = partition.directory.marks_of(key)
    name, offset = highest_line(marks.recovery_point or 0, marks.high_watermark or 0)
    if offset <= (marks.log_start_offset or 0):
        return []
    gone = GoneLog(partition.directory.path, key, name, offset, has_folder=True)
    return [Spot(AuditKind.LOST_PARTITION, "", sentence(gone.words), offset=offset)]
