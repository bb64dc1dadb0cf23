"""Erases records from one log directory: searches everything first, then changes it.

`erasure.py` describes the order and gives the reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from stratalog.clock import Clock
from stratalog.directory.known_topics import KnownTopics
from stratalog.directory.layout import PartitionEntry
from stratalog.directory.log_directory import LogDirectory
from stratalog.directory.repairing import (
    finish_replacements,
    is_unfinished,
    plan_repair,
    why_not_loaded,
)
from stratalog.directory.session import Session
from stratalog.errors import InvalidNameError, StratalogError
from stratalog.files.disk import Disk
from stratalog.files.entries import EntryKind
from stratalog.files.names import (
    MAX_DIRECTORY_LENGTH,
    DirectoryState,
    FileKind,
    TopicPartition,
    parse_partition_directory,
    parse_segment_file,
)
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.cleaning.erase import Rewritten, ToErase
from stratalog.log.cleaning.erase_audit import Audit, AuditLine
from stratalog.log.cleaning.erase_partition import PartitionFiles
from stratalog.log.cleaning.erase_quarantine import find_kept
from stratalog.log.cleaning.erase_selection import Found, Matcher, Selection
from stratalog.log.recovery.plan import RecoveryPlan
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.operations.erase.erase_checks import check_staged, unknown_files
from stratalog.operations.erase.erase_report import DirectoryErasure, ErasedFile, PartitionErasure
from stratalog.operations.read_progress import ReadProgress, logs_size

ENDED_FIRST = "{}: a replacement of segments was interrupted, and is finished first."


class Looked(NamedTuple):
    """The result of searching one partition: its row of the report, the files, and notes for the report."""

    planned: PartitionErasure
    found: list[ToErase]
    notes: list[str]


class DirectoryEraser:
    """One log directory: finds and erases the records of the topics or partitions `names`.

    `places` are the directories whose quarantines are searched too, this directory among them. `rewritten`
    are segments that a recovery would rewrite first, by the path of their partition.
    """

    def __init__(
        self,
        path: str,
        places: Sequence[str],
        *,
        names: Sequence[str],
        selection: Selection,
        known: KnownTopics,
        disk: Disk,
        clock: Clock,
        rewritten: Mapping[str, str],
    ) -> None:
        self.path, self._wanted, self._known = path, names, known
        self._disk, self._clock, self._rewritten = disk, clock, rewritten
        self._quarantines = [Quarantine(disk, place, clock=clock) for place in places]
        self._matcher = Matcher(selection)
        self._audit = Audit(disk, path)
        self._planned: list[PartitionErasure] = []
        self._to_erase: list[list[ToErase]] = []
        self._is_changed = False
        self.notes: list[str] = []
        kept = (entry.partition for place in self._quarantines for entry in place.entries())
        there = (entry.name for entry in self._disk.list_directory(path) if entry.kind is EntryKind.DIRECTORY)
        self.names = sorted(name for name in {*kept, *there} if self._key_of(name) is not None)

    def topics_of(self, wanted: str) -> set[str]:
        """The topics of the partitions here that match this name."""
        return {key.topic for name in self.names if (key := _key_by(wanted, name)) is not None}

    @property
    def are_partitions(self) -> bool:
        """Whether all names are names of partitions, and none is a topic."""
        return all(str(self._key_of(name)) in self._wanted for name in self.names)

    def sizes(self) -> Iterator[tuple[str, int]]:
        """The bytes to search in each partition, by its path."""
        kept = [entry for place in self._quarantines for entry in place.entries()]
        for name in self.names:
            path = self.path_of(name)
            size = logs_size(self._disk, path) if self._disk.exists(path) else 0
            of_name = (entry for entry in kept if entry.partition == name)
            yield path, size + sum(part.size for entry in of_name for part in entry.parts)

    def files(self) -> Iterator[str]:
        """The logs in the directories of the partitions; links are left to `look`, which refuses them."""
        for name in self.names:
            path, key = self.path_of(name), self._key_of(name)
            assert key is not None
            is_searched = not self._known.of(key.topic).remote_storage_enable and path not in self._rewritten
            for entry in self._disk.list_directory(path) if is_searched and self._disk.exists(path) else []:
                file = parse_segment_file(entry.name) if entry.kind is EntryKind.FILE else None
                if file is None or file.kind is not FileKind.LOG or entry.is_symlink:
                    continue
                if self._matcher.selection.may_reach(file.offset, None):
                    yield join_path(path, entry.name)

    def sizes_to_erase(self) -> Iterator[tuple[str, int]]:
        """The bytes that erasing reads: a file to rewrite is read three times, its replacement twice."""
        for planned, found in zip(self._planned, self._to_erase, strict=True):
            yield self.path_of(planned.name), sum(each.size * (1 if each.is_gone else 5) for each in found)

    def finish_replacements(self, directory: LogDirectory) -> None:
        """Finish interrupted replacements of segments in the named partitions, before these are searched."""
        for name in self.names:
            config = self._known.of(parse_partition_directory(name).topic_partition.topic)
            if config.remote_storage_enable:  # refused
                continue
            if finish_replacements(self._disk, self._clock, directory, name, config):
                self._is_changed = True
                self.notes.append(ENDED_FIRST.format(name))

    def plan_replacements(self) -> list[RecoveryPlan]:
        """For a dry run: what `finish_replacements` would do. NeedsRecoveryError if it would refuse."""
        plans = []
        for name in self.names:
            config = self._known.of(parse_partition_directory(name).topic_partition.topic)
            if not config.remote_storage_enable and is_unfinished(self._disk, self.path, name):
                plans.append(plan_repair(self._disk, self._clock, self.path, name, config))
        return plans

    def look(self, disk: DiskReader, name: str, searching: Matcher) -> Looked:
        """Find everything to erase in one partition; an error becomes part of the result.

        Any thread may call it; `disk` and `searching` belong to the calling thread.
        """
        key = self._key_of(name)
        assert key is not None
        found: list[ToErase] = []
        notes: list[str] = []
        markers_count, refusal, error = 0, self._refusal(name, key, notes), None
        rewritten = self._rewritten.get(self.path_of(name))
        if refusal is None and rewritten is None:
            try:
                check_staged(disk, self.path, key, searching)
                for each in self._look_at(disk, name, key, searching, notes):
                    markers_count += (
                        each.found.markers_count if isinstance(each, ToErase) else each.markers_count
                    )
                    found += [each] if isinstance(each, ToErase) else []
            except StratalogError as failure:
                found, error = [], str(failure)
        must_recover = None
        if found or error is not None:
            config = self._known.of(key.topic)
            must_recover = why_not_loaded(disk, self._clock, self.path, name, config)
        if must_recover is not None:
            found, error = [], must_recover
        planned = PartitionErasure(
            name=name,
            files=tuple(_planned(each) for each in found),
            markers_count=markers_count,
            refusal=refusal,
            error=error,
            needs_recovery=must_recover is not None,
            not_known=None
            if rewritten is None
            else f"recovery rewrites {rewritten} first, and the records to erase depend on the result",
        )
        return Looked(planned, found, notes)

    def take(self, looked: Looked) -> None:
        """Store the search result of the next partition in `names`."""
        self._planned.append(looked.planned)
        self._to_erase.append(looked.found)
        self.notes += looked.notes

    def plan(self) -> DirectoryErasure:
        return DirectoryErasure(directory=self.path, partitions=tuple(self._planned))

    def erase(self, session: Session, directory: LogDirectory, progress: ReadProgress) -> DirectoryErasure:
        """Erase, file by file.

        After a failure no clean-shutdown file is written, and only finished files are reported."""
        report = self.plan()
        if not any(self._to_erase) and not self._is_changed:
            return report
        done: list[list[ErasedFile]] = [[] for _ in self._planned]
        error = None
        try:
            directory.before_change()
            for planned, found, files in zip(self._planned, self._to_erase, done, strict=True):
                with progress.part(self.path_of(planned.name), planned.name) as self._matcher.on_read:
                    for each in found:
                        files.append(self._erase(planned.name, each))
            session.put_back(directory)
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
                    time_ms=self._clock(),
                    partition=partition,
                    file=what.file,
                    what=what.what.value,
                )
            )

        done = what.erase(note)
        return replace(_planned(what), size_after=done.size_after)

    def _look_at(
        self, disk: DiskReader, name: str, key: TopicPartition, searching: Matcher, notes: list[str]
    ) -> Iterator[ToErase | Found]:
        path = self.path_of(name)
        if disk.exists(path):
            others = [f"{name}/{file}" for file in unknown_files(disk, path)]
            if others:
                notes.append(
                    "These files were not searched, because a broker does not have such files: "
                    f"{', '.join(others)}."
                )
            yield from PartitionFiles(
                disk=self._disk,
                directory=path,
                state=parse_partition_directory(name).state,
                config=self._known.of(key.topic),
                clock=self._clock,
                matcher=self._matcher,
            ).look(disk, searching)
        for quarantine in self._quarantines:
            yield from find_kept(
                self._disk, quarantine, name, self._matcher, reader=disk, searching=searching
            )

    def path_of(self, name: str) -> str:
        """Where the directory of a partition is, or was."""
        return join_path(self.path, name)

    def _key_of(self, name: str) -> TopicPartition | None:
        """The partition that this directory belongs to, if it was named."""
        found = (_key_by(wanted, name) for wanted in self._wanted)
        return next((key for key in found if key is not None), None)

    def _refusal(self, name: str, key: TopicPartition, notes: list[str]) -> str | None:
        if self._known.of(key.topic).remote_storage_enable:
            return (
                "the topic is tiered: its remote storage also has the records, and they cannot be erased "
                "there."
            )
        if self._known.refusal(self.path, PartitionEntry(name, key)) is not None:
            notes.append(
                f"{key.topic}: the settings of the topic are not known. If the topic is tiered, its remote "
                "storage has these records too."
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


def _key_by(wanted: str, name: str) -> TopicPartition | None:
    """The partition that directory `name` belongs to, if it matches the wanted topic or partition."""
    try:
        key, state = parse_partition_directory(name)
    except InvalidNameError:
        return None
    if wanted in (key.topic, str(key)):
        return key
    # In the name of a directory that was set aside, a topic that is too long is shortened.
    is_cut = state in (DirectoryState.DELETE, DirectoryState.STRAY) and len(name) == MAX_DIRECTORY_LENGTH
    topic, _, number = wanted.rpartition("-")
    if is_cut and wanted.startswith(key.topic):
        return TopicPartition(wanted, key.partition)
    if is_cut and topic.startswith(key.topic) and number == str(key.partition):
        return TopicPartition(topic, key.partition)
    return None
