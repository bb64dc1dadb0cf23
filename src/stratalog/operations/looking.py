"""The partitions of log directories as they are now: for `explain`, `du`, `estimate`, and for plans.

No lock is taken and nothing is changed; a broker may run meanwhile. High watermarks come from the checkpoint,
as when a broker starts. A running broker writes the checkpoint every few seconds, so its own high watermarks
may be higher.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.directory.checkpoints import DirectoryCheckpoints, clamp
from stratalog.directory.known_topics import KnownTopics
from stratalog.directory.layout import LOADED, PartitionEntry
from stratalog.directory.partitions import FoundPartition, list_partitions
from stratalog.directory.views import open_view
from stratalog.errors import StratalogError
from stratalog.files.entries import DirectoryEntry, EntryKind
from stratalog.files.names import (
    FileState,
    TopicPartition,
    parse_segment_file,
)
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.api.view import LogView
from stratalog.log.cleaning.choice import LogFacts, LogToClean, log_to_clean
from stratalog.log.retention import Decision, Marks, decide, facts_of, find_timestamps
from stratalog.operations.named import is_named
from stratalog.records.internal_topics import CLUSTER_METADATA


class Partition:
    """One partition, opened read-only. `refusal` says why none of its records may be deleted, or is None.

    `has_high_watermark`: the checkpoint has one for it. Otherwise its high watermark is the log start offset.
    """

    def __init__(
        self,
        entry: PartitionEntry,
        view: LogView,
        *,
        disk: DiskReader,
        high_watermark: int,
        has_high_watermark: bool,
        cleaner_checkpoint: int | None,
        refusal: str | None,
    ) -> None:
        self.entry = entry
        self.refusal = refusal
        self.disk = disk
        self.high_watermark = high_watermark
        self.has_high_watermark = has_high_watermark
        self.cleaner_checkpoint = cleaner_checkpoint
        self.view = view

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def topic_partition(self) -> TopicPartition:
        return self.entry.topic_partition

    @property
    def config(self) -> LogConfig:
        return self.view.config

    @property
    def marks(self) -> Marks:
        return Marks(self.view.log_start_offset, self.high_watermark, self.view.log_end_offset)

    def decisions(self, now: int, high_watermark: int | None = None) -> tuple[Decision, ...]:
        """What retention would do with each segment now, with this high watermark or the partition's own."""
        marks = self.marks if high_watermark is None else self.marks._replace(high_watermark=high_watermark)
        return decide(facts_of(self.view.segments), marks, self.config, now)

    def to_clean(self, now: int, high_watermark: int | None = None) -> LogToClean | None:
        """The part to clean; None if the log is not compacted or has no segment yet."""
        if not self.config.compact or not len(self.view.segments):
            return None
        own = self.high_watermark if high_watermark is None else high_watermark
        stable = min(self.view.last_stable_offset, own)
        facts = LogFacts(
            self.topic_partition,
            tuple(self.view.segments),
            self.view.log_start_offset,
            stable,
            self.view.log_end_offset,
            self.config,
        )
        return log_to_clean(facts, self.cleaner_checkpoint, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadablePartition:
    """A partition that cannot be read, and why; the others are read."""

    entry: PartitionEntry
    error: str

    @property
    def name(self) -> str:
        return self.entry.name


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingFile:
    """A file renamed to `.deleted`, or a folder marked -delete, that waits for its deletion."""

    path: str
    size: int
    due_ms: int


def look(
    disk: DiskReader,
    clock: Clock,
    directory: str,
    known: KnownTopics,
    names: Sequence[str] = (),
    *,
    starts: Mapping[TopicPartition, int] | None = None,
) -> Iterator[Partition | UnreadablePartition]:
    """The partitions of a log directory; if `names` are given, only those of these topics or partitions.

    Each partition is closed when the next one is requested. `starts` are log start offsets that take
    precedence over the checkpoint's.
    """
    looked_at = LookedAt(disk, directory, known, names, starts=starts)
    for found in looked_at.partitions:
        with looked_at.open(disk, clock, found) as partition:
            yield partition


class LookedAt:
    """A log directory whose listing and checkpoints were read; its partitions are opened one by one.

    `partitions` are all but the cluster's metadata, or those of the named topics and partitions. `starts` are
    log start offsets that take precedence over the checkpoint's.
    """

    def __init__(
        self,
        disk: DiskReader,
        directory: str,
        known: KnownTopics,
        names: Sequence[str] = (),
        *,
        starts: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        checkpoints = DirectoryCheckpoints(disk, directory)
        self._directory, self._known = directory, known
        self._watermarks = checkpoints.high_watermarks.read()
        self._cleaned = checkpoints.cleaner_offsets.read()
        self.partitions = [
            replace(found, log_start_offset=(starts or {}).get(found.topic_partition, found.log_start_offset))
            for found in list_partitions(disk, directory, LOADED)
            if found.topic_partition.topic != CLUSTER_METADATA and (not names or is_named(found.entry, names))
        ]

    @contextmanager
    def open(
        self, disk: DiskReader, clock: Clock, found: FoundPartition
    ) -> Iterator[Partition | UnreadablePartition]:
        """One of the partitions, read through this disk; any thread may call it."""
        with open_partition(disk, clock, self.facts_of(found)) as partition:
            yield partition

    def facts_of(self, found: FoundPartition) -> KnownPartition:
        """What listing, checkpoints and settings say about one of the partitions."""
        key = found.topic_partition
        return KnownPartition(
            found=found,
            config=self._known.of(key.topic),
            high_watermark=self._watermarks.get(key),
            cleaner_checkpoint=self._cleaned.get(key),
            refusal=self._known.refusal(self._directory, found.entry),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPartition:
    """What must be known to open a partition; it can be sent to another process.

    `high_watermark` is that of the checkpoint, or None.
    """

    found: FoundPartition
    config: LogConfig
    high_watermark: int | None
    cleaner_checkpoint: int | None
    refusal: str | None


@contextmanager
def open_partition(
    disk: DiskReader, clock: Clock, facts: KnownPartition
) -> Iterator[Partition | UnreadablePartition]:
    """The partition, which is open until the block ends."""
    entry = facts.found.entry
    try:
        view = open_view(disk, clock, facts.found, facts.config)
        find_timestamps(tuple(view.segments))
    except StratalogError as error:
        yield UnreadablePartition(entry=entry, error=str(error))
        return
    try:
        yield Partition(
            entry,
            view,
            disk=disk,
            high_watermark=clamp(facts.high_watermark or 0, view.log_start_offset, view.log_end_offset),
            has_high_watermark=facts.high_watermark is not None,
            cleaner_checkpoint=facts.cleaner_checkpoint,
            refusal=facts.refusal,
        )
    finally:
        view.close()


def waiting_files(disk: DiskReader, directory: str, delay_ms: int) -> list[WaitingFile]:
    """The files of a partition that wait for their deletion, and when each is due.

    The delay counts from a file's modification time. `maintaining.py` sets it after a rename; a broker does
    not, so files that a broker renamed may be due earlier.
    """
    return [
        WaitingFile(path=join_path(directory, entry.name), size=entry.size, due_ms=entry.mtime_ms + delay_ms)
        for entry in disk.list_directory(directory)
        if _is_waiting(entry)
    ]


def files_to_wait(disk: DiskReader, directory: str, bases: Iterable[int], due_ms: int) -> list[WaitingFile]:
    """The files that will wait for their deletion when the segments with these bases are deleted."""
    wanted = {*bases}
    found = []
    for entry in disk.list_directory(directory) if wanted else []:
        file = parse_segment_file(entry.name) if entry.kind is EntryKind.FILE else None
        if file is not None and file.state is FileState.LIVE and file.offset in wanted:
            path = join_path(directory, file._replace(state=FileState.DELETED).name)
            found.append(WaitingFile(path=path, size=entry.size, due_ms=due_ms))
    return found


def _is_waiting(entry: DirectoryEntry) -> bool:
    if entry.kind is not EntryKind.FILE or not entry.name.endswith(FileState.DELETED.value):
        return False
    file = parse_segment_file(entry.name)
    return file is not None and file.state is FileState.DELETED
