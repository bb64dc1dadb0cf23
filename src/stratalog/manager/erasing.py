"""Erases records from the log directories of a node that is not running, wherever they are kept there.

Looked at, in each directory: the segments of the partition, the active one included, and of a copy that is on
its way to another disk; its directories that wait for removal or were set aside as stray; files that wait for
their deletion; and what recovery has put into quarantine. Everything is looked through before the first
change. Then, as with `maintaining.py`, the marker goes, the files are changed, and the marker comes back with
the epoch it had. A run that finds nothing to erase changes nothing; one that is killed leaves a directory
without a marker, which the next run recovers and then finishes.

Erasing asks for no setting of the topic but whether it is tiered: what was copied elsewhere is out of reach.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain

from stratalog.clock import Clock, system_clock
from stratalog.errors import (
    InvalidNameError,
    LogDirLockedError,
    PolicyViolationError,
    StratalogError,
    UsageError,
)
from stratalog.files.disk import Disk
from stratalog.files.entries import EntryKind
from stratalog.files.lock import DirectoryLock, is_locked
from stratalog.files.names import (
    CLUSTER_METADATA_TOPIC,
    MAX_DIRECTORY_LENGTH,
    DirectoryState,
    TopicPartition,
    parse_partition_directory,
)
from stratalog.log.cleaning.erase import Found, Rewritten, ToErase
from stratalog.log.cleaning.erase_audit import Audit, AuditLine
from stratalog.log.cleaning.erase_partition import PartitionFiles
from stratalog.log.cleaning.erase_quarantine import find_kept
from stratalog.log.cleaning.erase_selection import Matcher, Selection
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.manager.erase_checks import check_staged, unknown_files
from stratalog.manager.erase_report import (
    DirectoryErasure,
    ErasedFile,
    ErasureReport,
    PartitionErasure,
)
from stratalog.manager.known_topics import KnownTopics, TopicSources
from stratalog.manager.layout import PartitionEntry
from stratalog.manager.log_directory import LogDirectory, MakeLock
from stratalog.manager.maintaining import Maintenance
from stratalog.manager.read_progress import OnRead, ReadProgress, logs_size, nobody
from stratalog.manager.repairing import finish_replacements
from stratalog.manager.starting import unique_paths

EVERY_REPLICA = (
    "Each replica keeps these records in files of its own: erase them there too, or a replica that takes "
    "over serves them again. Backups, mirrored clusters and consumers have copies that are out of reach here."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What is to be erased, from which topic or partition, in which directories of one node.

    `quarantines` are directories outside of those in which a recovery was told to keep what it cut off.
    """

    directories: Sequence[str]
    name: str
    selection: Selection
    quarantines: Sequence[str] = ()
    sources: TopicSources = field(default_factory=TopicSources)
    dry_run: bool = False
    disk: Disk = field(default_factory=lambda: Disk(require_owner=True))
    clock: Clock = system_clock
    make_lock: MakeLock = DirectoryLock

    def run(self, on_look: OnRead = nobody, on_erase: OnRead = nobody) -> ErasureReport:
        """Erase, or only say what would be. LogDirLockedError if a directory is in use.

        Both are told of the partition that is read: to find what is to go, and to write files without it.
        """
        if self.name.partition("-")[0] == CLUSTER_METADATA_TOPIC:
            raise PolicyViolationError(
                f"{CLUSTER_METADATA_TOPIC}: the metadata of the cluster is not erased from; its controllers "
                "count on every record of it."
            )
        paths, now = unique_paths(self.directories), self.clock()
        fixed = replace(self, clock=lambda: now)
        if self.dry_run:
            for path in paths:
                if is_locked(path):
                    raise LogDirLockedError(path)
            return fixed._in_all(paths, None, on_look, on_erase)
        with ExitStack() as held:
            maintenance = Maintenance(
                directories=paths,
                sources=self.sources,
                disk=self.disk,
                clock=fixed.clock,
                make_lock=self.make_lock,
            )
            directories = maintenance.open_directories(paths, held)
            for place in self._places(paths):
                lock = self.make_lock(place)
                held.callback(lock.release)
                lock.acquire()
            return fixed._in_all(paths, directories, on_look, on_erase)

    def _in_all(
        self,
        paths: Sequence[str],
        directories: Sequence[LogDirectory] | None,
        on_look: OnRead,
        on_erase: OnRead,
    ) -> ErasureReport:
        known = KnownTopics(self.disk, paths, self.sources)
        places = self._places(paths)  # looked through with the first directory, whose audit tells of them
        looking = [
            _Directory(self, path, [path, *(places if path == paths[0] else [])], known) for path in paths
        ]
        if not any(each.names for each in looking):
            raise UsageError(f"{self.name}: there is no such topic or partition in {', '.join(paths)}.")
        self._check_name({topic for each in looking for topic in each.topics})
        if self.selection.ranges and not all(each.are_partitions for each in looking):
            raise UsageError(f"{self.name} is a topic: offsets belong to a partition, as in {self.name}-0.")
        for each, directory in zip(looking, directories or (), strict=directories is not None):
            each.finish_replacements(directory)
        progress = ReadProgress(on_look, dict(chain.from_iterable(each.sizes() for each in looking)))
        for each in looking:
            each.look(progress)
        if directories is None:
            reports = [each.plan() for each in looking]
        else:
            sizes = dict(chain.from_iterable(each.sizes_to_erase() for each in looking))
            progress = ReadProgress(on_erase, sizes)
            reports = [
                each.erase(directory, progress) for each, directory in zip(looking, directories, strict=True)
            ]
        notes = [note for each in looking for note in each.notes]
        if others := self._not_named(paths):
            notes.append(f"Not looked through, though the broker's log.dirs have it: {', '.join(others)}.")
        if any(partition.files for report in reports for partition in report.partitions):
            notes.append(EVERY_REPLICA)
        return ErasureReport(directories=tuple(reports), notes=tuple(dict.fromkeys(notes)))

    def _check_name(self, topics: Collection[str]) -> None:
        """UsageError for a name that two things have: the other one may hold records that are to stay."""
        if self.name in topics and len(topics) > 1:
            topic, _, number = self.name.rpartition("-")
            raise UsageError(
                f"{self.name} is a topic here, and partition {number} of {topic} too. Name the topic's "
                f"partitions one by one, as in {self.name}-0, or all of {topic}."
            )

    def _not_named(self, paths: Sequence[str]) -> list[str]:
        """Other directories of the broker: one may have a copy of a partition, on its way or set aside."""
        named = {os.path.realpath(path) for path in paths}
        every = () if self.sources.server is None else self.sources.server.manager.log_dirs
        return [path for path in every if os.path.realpath(path) not in named and self.disk.exists(path)]

    def _places(self, paths: Sequence[str]) -> list[str]:
        """The directories that only keep what was cut off."""
        found = unique_paths(self.quarantines) if self.quarantines else []
        return [place for place in found if place not in paths]


class _Directory:
    """One log directory: what is to be erased in it, and the erasing."""

    def __init__(self, erasure: Erasure, path: str, places: Sequence[str], known: KnownTopics) -> None:
        self._erasure, self._disk, self._path, self._known = erasure, erasure.disk, path, known
        self._quarantines = [Quarantine(self._disk, place, clock=erasure.clock) for place in places]
        self._matcher = Matcher(erasure.selection)
        self._audit = Audit(self._disk, path)
        self._planned: list[PartitionErasure] = []
        self._to_erase: list[list[ToErase]] = []
        self._is_changed = False
        self.notes: list[str] = []
        kept = (entry.partition for place in self._quarantines for entry in place.entries())
        there = (entry.name for entry in self._disk.list_directory(path) if entry.kind is EntryKind.DIRECTORY)
        self.names = sorted(name for name in {*kept, *there} if self._key_of(name) is not None)

    @property
    def topics(self) -> set[str]:
        """Whose partitions these are."""
        return {key.topic for name in self.names if (key := self._key_of(name)) is not None}

    @property
    def are_partitions(self) -> bool:
        """Whether what is named is a partition, and not a topic with any number of them."""
        return all(str(self._key_of(name)) == self._erasure.name for name in self.names)

    def sizes(self) -> Iterator[tuple[str, int]]:
        """How much there is to look through of each partition, by its path."""
        kept = [entry for place in self._quarantines for entry in place.entries()]
        for name in self.names:
            path = self._path_of(name)
            size = logs_size(self._disk, path) if self._disk.exists(path) else 0
            of_name = (entry for entry in kept if entry.partition == name)
            yield path, size + sum(part.size for entry in of_name for part in entry.parts)

    def sizes_to_erase(self) -> Iterator[tuple[str, int]]:
        """How much is read to erase what was found: what is rewritten thrice, what it becomes twice."""
        for planned, found in zip(self._planned, self._to_erase, strict=True):
            yield self._path_of(planned.name), sum(each.size * (1 if each.is_gone else 5) for each in found)

    def finish_replacements(self, directory: LogDirectory) -> None:
        """What was cut short in partitions that are named is brought to an end before they are looked at."""
        for name in self.names:
            config = self._known.of(parse_partition_directory(name).topic_partition.topic)
            if config.remote_storage_enable:  # refused
                continue
            if finish_replacements(self._disk, self._erasure.clock, directory, name, config):
                self._is_changed = True
                self.notes.append(f"{name}: a replacement of segments was cut short, and was ended first.")

    def look(self, progress: ReadProgress) -> None:
        """Find everything that is to go; what cannot be read is told of its partition."""
        for name in self.names:
            with progress.part(self._path_of(name), name) as self._matcher.on_read:
                self._look_for(name)

    def _look_for(self, name: str) -> None:
        key = self._key_of(name)
        assert key is not None
        found: list[ToErase] = []
        markers_count, refusal, error = 0, self._refusal(name, key), None
        if refusal is None:
            try:
                check_staged(self._disk, self._path, key, self._matcher)
                for each in self._look_at(name, key):
                    markers_count += (
                        each.found.markers_count if isinstance(each, ToErase) else each.markers_count
                    )
                    found += [each] if isinstance(each, ToErase) else []
            except StratalogError as failure:
                found, error = [], str(failure)
        self._to_erase.append(found)
        self._planned.append(
            PartitionErasure(
                name=name,
                files=tuple(_planned(each) for each in found),
                markers_count=markers_count,
                refusal=refusal,
                error=error,
            )
        )

    def plan(self) -> DirectoryErasure:
        return DirectoryErasure(directory=self._path, partitions=tuple(self._planned))

    def erase(self, directory: LogDirectory, progress: ReadProgress) -> DirectoryErasure:
        """Do it, file by file. On a failure no marker is written, and only what was done is reported."""
        report = replace(self.plan(), was_recovered=directory.recovered is not None)
        if not any(self._to_erase) and not self._is_changed:
            return report
        done: list[list[ErasedFile]] = [[] for _ in self._planned]
        error = None
        try:
            directory.before_change()
            for planned, found, files in zip(self._planned, self._to_erase, done, strict=True):
                with progress.part(self._path_of(planned.name), planned.name) as self._matcher.on_read:
                    for each in found:
                        files.append(self._erase(planned.name, each))
            directory.mark_clean(None, all_succeeded=True)
        except StratalogError as failure:
            error = str(failure)
        partitions = tuple(
            replace(planned, files=tuple(files)) for planned, files in zip(self._planned, done, strict=True)
        )
        return replace(report, partitions=partitions, error=error)

    def _erase(self, partition: str, what: ToErase) -> ErasedFile:
        def note(rewritten: Rewritten) -> None:
            self._audit.write(
                AuditLine.of(
                    rewritten,
                    time_ms=self._erasure.clock(),
                    partition=partition,
                    file=what.file,
                    what=what.what.value,
                )
            )

        done = what.erase(note)
        return replace(_planned(what), size_after=done.size_after)

    def _look_at(self, name: str, key: TopicPartition) -> Iterator[ToErase | Found]:
        path = self._path_of(name)
        if self._disk.exists(path):
            others = [f"{name}/{file}" for file in unknown_files(self._disk, path)]
            if others:
                self.notes.append(f"Not looked into, as no broker has such files: {', '.join(others)}.")
            yield from PartitionFiles(
                disk=self._disk,
                directory=path,
                state=parse_partition_directory(name).state,
                config=self._known.of(key.topic),
                clock=self._erasure.clock,
                matcher=self._matcher,
            ).look()
        for quarantine in self._quarantines:
            yield from find_kept(self._disk, quarantine, name, self._matcher)

    def _path_of(self, name: str) -> str:
        return f"{self._path}{os.sep}{name}"

    def _key_of(self, name: str) -> TopicPartition | None:
        """Whose directory this is, if it is one of what was named."""
        try:
            key, state = parse_partition_directory(name)
        except InvalidNameError:
            return None
        wanted = self._erasure.name
        if wanted in (key.topic, str(key)):
            return key
        # The topic in the name of a directory that was set aside is cut where the name would be too long.
        is_cut = state in (DirectoryState.DELETE, DirectoryState.STRAY) and len(name) == MAX_DIRECTORY_LENGTH
        topic, _, number = wanted.rpartition("-")
        if is_cut and wanted.startswith(key.topic):
            return TopicPartition(wanted, key.partition)
        if is_cut and topic.startswith(key.topic) and number == str(key.partition):
            return TopicPartition(topic, key.partition)
        return None

    def _refusal(self, name: str, key: TopicPartition) -> str | None:
        if self._known.of(key.topic).remote_storage_enable:
            return "the topic is tiered: its remote storage has the records too, out of reach here."
        if self._known.refusal(self._path, PartitionEntry(name, key)) is not None:
            self.notes.append(
                f"{key.topic}: its settings are not known here. Should it be tiered, its remote storage has "
                "these records too."
            )
        return None


def _planned(what: ToErase) -> ErasedFile:
    return ErasedFile(
        file=what.file,
        what=what.what,
        records_count=None if what.found.problem is not None else what.found.records_count,
        size_before=what.size,
        size_after=0 if what.is_gone else None,
        is_gone=what.is_gone,
    )
