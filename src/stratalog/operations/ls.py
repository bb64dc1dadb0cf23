"""`ls`: the topics of log directories, the partitions of a topic, or the segments of a partition.

It reads only names, sizes, small files, indexes, and the first and last batch of each log; of a named
partition, those of each segment (`log/api/outline.py`). So it takes only a few times as long as a listing of
the files. Nothing is locked or changed; a broker may run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from stratalog.clock import Clock, system_clock
from stratalog.config import LogConfig
from stratalog.directory.kind import check_log_directory
from stratalog.directory.known_topics import KnownTopics, TopicSources
from stratalog.directory.lone_logs import was_shut_down
from stratalog.directory.partitions import FoundPartition, list_partitions
from stratalog.directory.session import unique_paths
from stratalog.errors import CorruptRecordError, DiskError, StratalogError
from stratalog.files.names import DirectoryState
from stratalog.files.paths import parent_path
from stratalog.files.reading import DiskReader
from stratalog.log.api.outline import LogOutline, codec_name, first_time, outline_of
from stratalog.log.log_end import last_batch
from stratalog.operations.ls_report import (
    ListedDirectory,
    ListedPartition,
    LsReport,
    Policy,
    ShownSegment,
)
from stratalog.operations.named import check_known, is_named
from stratalog.records.internal_topics import CLUSTER_METADATA
from stratalog.records.kernels.index import OFFSET_AT_LEAST
from stratalog.records.reader import BatchRow
from stratalog.segment.segment_reader import SegmentReader

_NO_SETTINGS = LogConfig()  # settings do not matter for a look at names, sizes and headers


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicListing:
    """A request: which directories of one node, and which topics or partitions in them (none: all topics)."""

    directories: Sequence[str]
    names: Sequence[str] = ()
    sources: TopicSources = field(default_factory=TopicSources)
    disk: DiskReader = field(default_factory=DiskReader)
    clock: Clock = system_clock

    def run(self) -> LsReport:
        """List everything that was requested.

        UsageError if no topic or partition has a given name, NotALogDirectoryError if a path is not a log
        directory."""
        paths = unique_paths(self.disk, self.directories)
        for path in paths:
            check_log_directory(self.disk, path)
        known = KnownTopics(self.disk, paths, self.sources)
        unreadable: list[DiskError] = []
        found = {
            path: list_partitions(self.disk, path, tuple(DirectoryState), on_unreadable=unreadable.append)
            for path in paths
        }
        check_known([each.entry for every in found.values() for each in every], self.names, paths)
        partitions = tuple(
            self._partition(each)
            for every in found.values()
            for each in every
            if not self.names or is_named(each.entry, self.names)
        )
        topics = {partition.topic for partition in partitions}
        return LsReport(
            directories=tuple(self._directory(path, found[path]) for path in paths),
            partitions=partitions,
            names=tuple(self.names),
            policies={topic: _policy(known, topic) for topic in topics},
            unreadable=tuple(map(str, unreadable)),
            notes=known.notes,
        )

    def _directory(self, path: str, found: Sequence[FoundPartition]) -> ListedDirectory:
        self.disk.release(path)
        return ListedDirectory(
            directory=path,
            partitions_count=sum(each.state is DirectoryState.LIVE for each in found),
            is_clean=was_shut_down(self.disk, path),
            is_in_use=self.disk.is_in_use(path),
        )

    def _partition(self, found: FoundPartition) -> ListedPartition:
        key, name = found.topic_partition, found.entry.name
        has_segments = name in self.names or str(key) in self.names
        try:
            outline = outline_of(self.disk, self.clock, found.directory, _NO_SETTINGS, found.log_start_offset)
            segments = tuple(_segments(outline)) if has_segments else ()
        except StratalogError as error:
            return ListedPartition(
                name=name,
                topic=key.topic,
                partition=key.partition,
                directory=parent_path(found.directory),
                state=found.state,
                error=str(error),
            )
        first, last = outline.first, outline.last
        return ListedPartition(
            name=name,
            topic=key.topic,
            partition=key.partition,
            directory=parent_path(found.directory),
            state=found.state,
            is_clean=found.left.was_closed,
            segments_count=len(outline.segments),
            size=outline.size,
            start_offset=outline.log_start_offset,
            end_offset=outline.log_end_offset,
            first_ms=-1 if first is None else first_time(first),
            last_ms=-1 if last is None else last.max_timestamp,
            codec=None if last is None else codec_name(last),
            leader_epoch=-1 if last is None else last.partition_leader_epoch,
            segments=segments,
        )


def _segments(outline: LogOutline) -> Iterator[ShownSegment]:
    ends = [segment.base_offset for segment in outline.segments[1:]] + [outline.log_end_offset]
    for segment, size, end in zip(outline.segments, outline.sizes, ends, strict=True):
        first, last = _first(segment), last_batch(segment)
        yield ShownSegment(
            base_offset=segment.base_offset,
            end_offset=end if last is None else last.last_offset + 1,
            size=size,
            first_ms=-1 if first is None else first_time(first),
            last_ms=-1 if last is None else last.max_timestamp,
            codec=None if last is None else codec_name(last),
            leader_epoch=-1 if last is None else last.partition_leader_epoch,
            index_entries=segment.offset_index.entry_count,
            time_index_entries=segment.time_index.entry_count,
        )


def _first(segment: SegmentReader) -> BatchRow | None:
    try:
        return segment.find_batch(0, OFFSET_AT_LEAST, segment.base_offset) if segment.size else None
    except CorruptRecordError:  # the batches after it can still be read
        return None


def _policy(known: KnownTopics, topic: str) -> Policy:
    if topic == CLUSTER_METADATA:
        return Policy((), is_known=True)
    return Policy(tuple(sorted(known.of(topic).cleanup_policy)), known.has_policy(topic))
