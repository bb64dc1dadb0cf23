"""`du`: what fills the disk, what retention frees next and when, and how fast the data grows.

Every file below the log directories is counted once, in the row of its topic, partition or directory; files
that belong to no topic have rows of their own. Nothing is locked or changed; a broker may run.

`log/retention.py` decides what retention frees, as for `explain`. All records are treated as replicated,
because the disk has only the last checkpointed high watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from stratalog.clock import Clock, system_clock
from stratalog.directory.kind import check_log_directory
from stratalog.directory.known_topics import KnownTopics, TopicSources
from stratalog.directory.layout import PartitionEntry
from stratalog.directory.session import unique_paths
from stratalog.engine.progress import OnProgress
from stratalog.errors import InvalidNameError, StratalogError
from stratalog.files.entries import DirectoryEntry
from stratalog.files.names import (
    QUARANTINE_PREFIX,
    DirectoryState,
    FileKind,
    FileState,
    PartitionDirectory,
    parse_partition_directory,
    parse_segment_file,
)
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.api.outline import outline_of
from stratalog.log.cleaning.tally import Prefix
from stratalog.operations.disk_tree import DiskFolder, read_tree
from stratalog.operations.du_keys import KeyUsage, count_keys
from stratalog.operations.du_report import DiskUse, DuReport, UsedDirectory
from stratalog.operations.freeing import NOTHING_FREED, NextFreed, added, growth_a_day, next_freed, spans_of
from stratalog.operations.looking import LookedAt, UnreadablePartition
from stratalog.operations.named import check_names, is_named
from stratalog.operations.read_progress import nobody

WAITING = "(waiting for deletion)"
STRAYS = "(stray partitions)"
QUARANTINED = "(quarantine)"
OTHERS = "(other files)"
_ALL = 1 << 30


class By(Enum):
    """What a row of the report is for."""

    DIRECTORY = "directory"
    TOPIC = "topic"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outlook:
    """What is known about the future of a log."""

    freed: NextFreed = NOTHING_FREED
    growth: int | None = None
    is_compacted: bool = False
    is_assumed: bool = False  # its settings are not known
    log_size: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUsage:
    """A request: which directories of one node, which topics or partitions in them (none: everything), and
    what a row is.

    `keys`: also read all records, and add up what each key prefix takes.
    """

    directories: Sequence[str]
    names: Sequence[str] = ()
    by: By = By.TOPIC
    keys: Prefix | None = None
    top: int = 20
    sources: TopicSources = field(default_factory=TopicSources)
    disk: DiskReader = field(default_factory=DiskReader)
    clock: Clock = system_clock

    def run(self, on_progress: OnProgress = nobody) -> DuReport:
        """Count everything. `on_progress` is called while records are read for `keys`.

        UsageError if no topic or partition has a given name, NotALogDirectoryError if a path is not a log
        directory."""
        paths = unique_paths(self.disk, self.directories)
        for path in paths:
            check_log_directory(self.disk, path)
        check_names(self.disk, paths, self.names)
        known = KnownTopics(self.disk, paths, self.sources)
        now = self.clock()
        trees = {path: read_tree(self.disk, path) for path in paths}
        outlooks = {path: self._outlooks(path, known, now) for path in paths}
        uses = [use for path in paths for use in self._uses(trees[path], outlooks[path])]
        keys: tuple[KeyUsage, ...] = ()
        if self.keys is not None:
            looked_at = {path: LookedAt(self.disk, path, known, self.names) for path in paths}
            keys = count_keys(
                self.disk, self.clock, looked_at, self.keys, self.top or _ALL, on_progress=on_progress
            )
        return DuReport(
            directories=tuple(self._directory(path, uses) for path in paths),
            uses=tuple(sorted(_grouped(uses, self._group), key=lambda use: (-use.disk_size, use.name))),
            by=self.by.value,
            keys=keys,
            top=self.top,
            now=now,
            errors=tuple(_errors(trees, outlooks)),
            notes=known.notes,
            trees=tuple(trees.values()),
        )

    def _outlooks(self, path: str, known: KnownTopics, now: int) -> dict[str, _Outlook]:
        """What is known about each partition that a broker would load, by the name of its folder."""
        looked_at = LookedAt(self.disk, path, known, self.names)
        found = {}
        for each in looked_at.partitions:
            with looked_at.open(self.disk, self.clock, each) as partition:
                name = each.entry.name
                if isinstance(partition, UnreadablePartition):
                    found[name] = _Outlook(error=partition.error)
                    continue
                try:
                    decisions = partition.decisions(now, partition.view.log_end_offset)
                    found[name] = _Outlook(
                        freed=next_freed(decisions),
                        growth=growth_a_day(spans_of(tuple(partition.view.segments))),
                        is_compacted=partition.config.compact,
                        is_assumed=partition.refusal is not None,
                        log_size=outline_of(
                            self.disk, self.clock, each.directory, partition.config, each.log_start_offset
                        ).size,
                    )
                except StratalogError as error:
                    found[name] = _Outlook(error=str(error))
        return found

    def _uses(self, tree: DiskFolder, outlooks: Mapping[str, _Outlook]) -> Iterator[DiskUse]:
        """A row for each partition; if nothing was named, also rows for everything else."""
        for folder in tree.folders:
            name = _partition_name(folder.name)
            if name is None:
                if not self.names:
                    yield _use(OTHERS, tree.path, folder.every_file())
                continue
            entry = PartitionEntry(folder.name, name.topic_partition, name.state)
            if self.names and not is_named(entry, self.names):
                continue
            outlook = outlooks.get(folder.name, _Outlook())
            group = {DirectoryState.DELETE: WAITING, DirectoryState.STRAY: STRAYS}.get(name.state)
            yield _use(
                folder.name,
                tree.path,
                folder.every_file(),
                topic=group or name.topic_partition.topic,
                outlook=outlook,
                is_live=name.state is DirectoryState.LIVE,
            )
        if not self.names:
            kept = [file for file in tree.files if file.name.startswith(QUARANTINE_PREFIX)]
            if kept:
                yield _use(QUARANTINED, tree.path, kept)
            yield _use(OTHERS, tree.path, [file for file in tree.files if file not in kept])

    def _group(self, use: DiskUse) -> str:
        if self.by is By.DIRECTORY:
            return use.directory
        if self.by is By.TOPIC:
            return use.topic
        # Two directories may have a partition of this name, if it is being moved from one to the other.
        return use.name

    def _directory(self, path: str, uses: Iterable[DiskUse]) -> UsedDirectory:
        own = [use for use in uses if use.directory == path]
        growths = [use.growth for use in own if use.growth is not None]
        status = self.disk.status(path)
        return UsedDirectory(
            directory=path,
            disk_size=sum(use.disk_size for use in own),
            free_size=self.disk.available_size(path),
            device=0 if status is None else status.device,
            growth=sum(growths) if growths else None,
        )


def _use(
    name: str,
    directory: str,
    files: Iterable[DirectoryEntry],
    *,
    topic: str | None = None,
    outlook: _Outlook | None = None,
    is_live: bool = False,
) -> DiskUse:
    outlook = outlook or _Outlook()
    size = disk_size = log_size = waiting_size = count = 0
    for file in files:
        count += 1
        size += file.size
        disk_size += file.disk_size
        kind, state = _kind(file.name)
        if state is FileState.DELETED:
            waiting_size += file.disk_size
        elif kind is FileKind.LOG and state is FileState.LIVE:
            log_size += file.size
    if outlook.log_size is not None:
        log_size = outlook.log_size  # without the zeros of a preallocated file
    return DiskUse(
        name=name,
        topic=name if topic is None else topic,
        directory=directory,
        disk_size=disk_size,
        size=size,
        log_size=log_size if topic is not None else 0,
        waiting_size=waiting_size if topic is not None else 0,
        files_count=count,
        partitions_count=int(is_live),
        growth=outlook.growth,
        freed=outlook.freed,
        is_compacted=outlook.is_compacted,
        is_assumed=outlook.is_assumed,
    )


def _kind(name: str) -> tuple[FileKind | None, FileState | None]:
    try:
        file = parse_segment_file(name)
    except InvalidNameError:
        return None, None
    return (None, None) if file is None else (file.kind, file.state)


def _partition_name(name: str) -> PartitionDirectory | None:
    try:
        return parse_partition_directory(name)
    except InvalidNameError:
        return None


def _grouped(uses: Iterable[DiskUse], group: Callable[[DiskUse], str]) -> list[DiskUse]:
    groups: dict[str, list[DiskUse]] = {}
    for use in uses:
        groups.setdefault(group(use), []).append(use)
    return [_sum(name, parts) for name, parts in groups.items()]


def _sum(name: str, parts: Sequence[DiskUse]) -> DiskUse:
    growths = [part.growth for part in parts if part.growth is not None]
    return DiskUse(
        name=name,
        topic=parts[0].topic,
        directory=", ".join(dict.fromkeys(part.directory for part in parts)),
        disk_size=sum(part.disk_size for part in parts),
        size=sum(part.size for part in parts),
        log_size=sum(part.log_size for part in parts),
        waiting_size=sum(part.waiting_size for part in parts),
        files_count=sum(part.files_count for part in parts),
        partitions_count=sum(part.partitions_count for part in parts),
        growth=sum(growths) if growths else None,
        freed=added(part.freed for part in parts),
        is_compacted=any(part.is_compacted for part in parts),
        is_assumed=any(part.is_assumed for part in parts),
    )


def _errors(
    trees: Mapping[str, DiskFolder], outlooks: Mapping[str, Mapping[str, _Outlook]]
) -> Iterator[tuple[str, str]]:
    listed: dict[str, str] = {}
    for tree in trees.values():
        listed.update(tree.every_error())
    yield from listed.items()
    for path, found in outlooks.items():
        for name, outlook in found.items():
            where = join_path(path, name)
            if outlook.error is not None and where not in listed:
                yield where, outlook.error
