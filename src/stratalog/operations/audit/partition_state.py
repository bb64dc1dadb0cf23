"""`PartitionState`: a partition during its audit, and the sums over many of them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import cached_property

from stratalog.errors import NoSuchFileError, StratalogError
from stratalog.operations.audit.audit_report import AuditedTopic, AuditTotals
from stratalog.operations.audit.audited_directory import AuditedDirectory
from stratalog.operations.audit.finding import AuditFinding
from stratalog.operations.audit.kinds import AuditKind
from stratalog.operations.audit.partition import AuditedPartition
from stratalog.operations.audit.partition_task import PartitionFacts, PartitionTask
from stratalog.operations.audit.segment_task import AuditedSegment
from stratalog.operations.audit.spots import Spot


class PartitionState:
    """A partition during its audit; `segments` has stamp and result of each segment, by base offset."""

    def __init__(self, directory: AuditedDirectory, task: PartitionTask) -> None:
        self.directory, self.task = directory, task
        self.facts: PartitionFacts | None = None
        self.segments: dict[int, tuple[str, AuditedSegment]] = {}
        self.spots: list[Spot] = []
        self.is_gone = False  # its directory was deleted since it was listed
        self.audited: AuditedPartition | None = None  # set when its segments are combined

    @property
    def ordered(self) -> list[AuditedSegment]:
        listed = () if self.facts is None else self.facts.segments
        return [self.segments[each.base_offset][1] for each in listed if each.base_offset in self.segments]

    @cached_property
    def stamps(self) -> dict[int, str]:
        """The stamp of each listed segment, by base offset; call it only when `facts` is set."""
        return {} if self.facts is None else {each.base_offset: each.stamp for each in self.facts.segments}

    @property
    def is_complete(self) -> bool:
        return self.facts is not None and len(self.ordered) == len(self.facts.segments)

    def fail(self, file: str, error: StratalogError) -> None:
        self.is_gone |= not file and isinstance(error, NoSuchFileError)
        self.spots.append(Spot(AuditKind.UNREADABLE, file, str(error)))

    @property
    def _after_repair(self) -> str:
        place = shlex.quote(self.task.log_directory)
        return (
            "Repair the log of this partition first, because `stratalog index` refuses a partition with a "
            f"damaged log. Then run `stratalog index {place}`, which rebuilds the file."
        )

    def findings(self) -> list[AuditFinding]:
        """The places as rows of the report."""
        has_damage = any(segment.has_damage for segment in self.ordered)
        return [
            AuditFinding(
                kind=spot.kind,
                directory=self.task.log_directory,
                partition=self.task.name,
                file=spot.file,
                words=spot.words,
                position=spot.position,
                size=spot.size,
                offset=spot.offset,
                count=spot.times,
                remedy_words=self._after_repair if has_damage and spot.kind.is_for_index else "",
            )
            for spot in self.spots
        ]


def totals_of(directories_count: int, partitions: Sequence[PartitionState], read_size: int) -> AuditTotals:
    """Everything that was audited, added up; a partition that cannot be listed does not count."""
    segments = [segment for partition in partitions for segment in partition.ordered]
    return AuditTotals(
        directories=directories_count,
        partitions=_looked_at(partitions),
        segments=len(segments),
        batches=sum(segment.scan.batches_count for segment in segments),
        records=sum(segment.records_count for segment in segments),
        bytes=sum(segment.size for segment in segments),
        bytes_read=read_size,
    )


def _looked_at(partitions: Sequence[PartitionState]) -> int:
    return sum(partition.facts is not None for partition in partitions)


def topics_of(partitions: Sequence[PartitionState]) -> tuple[AuditedTopic, ...]:
    """A row for each topic, in the order of their names."""
    found: dict[str, list[PartitionState]] = {}
    for partition in partitions:
        found.setdefault(partition.task.topic_partition.topic, []).append(partition)
    return tuple(_topic(name, found[name]) for name in sorted(found))


def _topic(name: str, partitions: Sequence[PartitionState]) -> AuditedTopic:
    segments = [segment for partition in partitions for segment in partition.ordered]
    firsts = [segment.first_timestamp for segment in segments if segment.first_timestamp >= 0]
    return AuditedTopic(
        topic=name,
        partitions=_looked_at(partitions),
        segments=len(segments),
        size=sum(segment.size for segment in segments),
        records=sum(segment.records_count for segment in segments),
        codecs=tuple(sorted({codec for segment in segments for codec in segment.codecs})),
        first_timestamp=min(firsts, default=-1),
        last_timestamp=max((segment.scan.max_timestamp for segment in segments), default=-1),
    )
