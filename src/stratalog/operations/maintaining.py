"""Runs work on the directories of a stopped node, in a session (`directory/session.py`).

1. A session locks the directories. A directory that was not shut down cleanly is refused, or recovered on
   request.
2. The plan is made by reading them, without a change. A dry run ends here.
3. Only logs that the plan changes are opened, changed and closed. In each directory the clean-shutdown file
   is removed before the first change. Then the changes are made and the checkpoints written. Last, the file
   is written again with the epoch it had.

A deleted file is renamed to `.deleted` and stays for file.delete.delay.ms. This process does not wait that
long: the next run after that time, or the next start of a broker, removes the files. With `purges` they are
removed at once, and so are folders that a broker has marked -delete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Protocol

from stratalog.directory.checkpoint_table import CheckpointMarks
from stratalog.directory.known_topics import KnownTopics
from stratalog.directory.layout import PartitionEntry, classify
from stratalog.directory.log_directory import LogDirectory
from stratalog.directory.partitions import FoundPartition
from stratalog.directory.repairing import repair_partition, why_not_loaded
from stratalog.directory.session import Session
from stratalog.engine.progress import OnProgress
from stratalog.engine.threads import ThreadEngine
from stratalog.errors import DiskError, NeedsRecoveryError, StratalogError
from stratalog.files.directories import remove_directory
from stratalog.files.names import LOG_START_OFFSET_CHECKPOINT, TopicPartition, parse_partition_directory
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.loader import load
from stratalog.log.log import Log
from stratalog.log.scheduler import ScheduledTask
from stratalog.operations.looking import (
    LookedAt,
    Partition,
    UnreadablePartition,
    WaitingFile,
    files_to_wait,
    waiting_files,
)
from stratalog.operations.named import is_named
from stratalog.operations.opening import Opened
from stratalog.operations.read_progress import CountRead, ReadProgress, logs_size, nobody
from stratalog.operations.request import NodeRequest
from stratalog.operations.work_report import DirectoryWork, PartitionWork, WorkReport


class Work(Protocol):
    """Work on logs: `plan` reads a log and says what to do, `do` does it.

    Both call `on_read` with the bytes of records they have read. `stage` names the work in progress reports.
    """

    stage: str

    def plan(self, partition: Partition, now: int, on_read: CountRead) -> PartitionWork: ...

    def do(
        self,
        log: Log,
        planned: PartitionWork,
        cleaner_checkpoint: int | None,
        now: int,
        on_read: CountRead,
    ) -> PartitionWork: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance(NodeRequest):
    """A request to retain or compact. `purges`: whatever waits for its deletion is removed at once."""

    purges: bool = False

    def run(self, work: Work, on_progress: OnProgress = nobody) -> WorkReport:
        """Do the work, or report what would be done. Refuses what `Opening.opened` refuses.

        `on_progress` is called during a recovery that comes first, and for the partition whose records are
        read.
        """
        now = self.clock()
        # One time for the whole run, so that a second run with the same time would find nothing to do.
        fixed = replace(self, clock=lambda: now)
        opening = fixed.opening(on_progress)
        with opening.opened(dry_run=self.dry_run) as opened:
            if opened.is_failed:
                return WorkReport(directories=(), recovery=opened.recovery, is_plan=self.dry_run)
            known = opening.known_topics(opened)
            # Only the plan of a dry run reads whole logs.
            sizes = fixed._sizes_of_compacted(opened, known) if self.dry_run else {}
            reading = ReadProgress(on_progress, sizes, stage="reading")
            planned = fixed._plan(opened, known, work, now, reading)
            if opened.session is not None:
                progress = ReadProgress(on_progress, fixed._sizes_to_read(planned), stage=work.stage)
                for each in opened.directories:
                    planned[each.path] = fixed._do_directory(
                        opened.session, each, planned[each.path], known, work, now, progress
                    )
            return WorkReport(
                directories=tuple(planned.values()),
                notes=(*opened.notes, *known.notes),
                recovery=opened.recovery,
                refusals=opening.refusals(opened),
                is_brokers=opening.are_brokers(opened),
                is_plan=self.dry_run,
                purges=self.purges,
            )

    def _sizes_of_compacted(self, opened: Opened, known: KnownTopics) -> dict[str, int]:
        """An upper limit of the bytes to read, by the path of each compacted partition: dirty parts are read
        twice."""
        sizes = {}
        for path in opened.paths:
            with suppress(DiskError):  # the plan reports it
                for entry in classify(opened.disk, path).partitions:
                    is_meant = not self.names or is_named(entry, self.names)
                    is_compacted = known.of(entry.topic_partition.topic).compact
                    if is_meant and is_compacted and known.refusal(path, entry) is None:
                        partition = join_path(path, entry.name)
                        sizes[partition] = 2 * logs_size(opened.disk, partition)
        return sizes

    def _sizes_to_read(self, planned: Mapping[str, DirectoryWork]) -> dict[str, int]:
        """The bytes to read of each partition that is to be compacted: the plan knows its dirty part."""
        sizes = {}
        for path, directory in planned.items():
            for work in directory.partitions:
                if work.cleaned is not None:
                    partition = join_path(path, work.name)
                    with suppress(DiskError):  # reported when the log is read
                        sizes[partition] = logs_size(self.disk, partition) + work.cleaned.cleanable_size
        return sizes

    def _plan(
        self, opened: Opened, known: KnownTopics, work: Work, now: int, progress: ReadProgress
    ) -> dict[str, DirectoryWork]:
        """The plan, by directory. Each device has one reader, because a rehearsal fills an offset map.

        A partition or directory that cannot be read gets an error; the others are planned.
        """
        looked_at: dict[str, LookedAt] = {}
        planned: dict[str, DirectoryWork] = {}
        for path in opened.paths:
            try:
                looked_at[path] = LookedAt(
                    opened.disk, path, known, self.names, starts=opened.starts.get(path)
                )
                planned[path] = DirectoryWork(directory=path, folders=self._folders(opened.disk, path, now))
            except StratalogError as error:
                planned[path] = _not_begun(path, error)
        tasks = [(path, each) for path, found in looked_at.items() for each in found.partitions]

        def plan(disk: DiskReader, task: tuple[str, FoundPartition]) -> PartitionWork:
            directory, each = task
            name = each.entry.name
            path = join_path(directory, name)
            rewritten = opened.rewritten.get(path)
            if rewritten is not None:
                words = f"recovery rewrites {rewritten} first, and the work on the log depends on the result"
                return PartitionWork(name=name, not_known=words)
            with looked_at[directory].open(disk, self.clock, each) as partition:
                if isinstance(partition, UnreadablePartition):
                    return PartitionWork(name=name, error=partition.error)
                if partition.refusal is not None:
                    return PartitionWork(name=name, refusal=partition.refusal)
                with progress.part(path, name) as on_read:
                    planned = work.plan(partition, now, on_read)
                if planned.changes_log and (left := self._why_not_opened(disk, directory, partition, each)):
                    return left
                delay_ms = partition.config.file_delete_delay_ms
                files = waiting_files(disk, path, delay_ms)
                bases = [gone.segment.base_offset for gone in planned.deleted]
                coming = files_to_wait(disk, path, bases, now + delay_ms)
            due = [*files, *coming] if self.purges else [file for file in files if file.due_ms <= now]
            return replace(
                planned,
                removed=tuple(sorted(due, key=_path)),
                waiting=tuple(sorted((file for file in (*files, *coming) if file not in due), key=_path)),
            )

        engine = ThreadEngine(1, disk=opened.disk)
        outcomes = engine.run(plan, tasks, paths=[path for path, _ in tasks], on_progress=progress.tell)
        found: dict[int, PartitionWork] = {}
        with closing(outcomes):
            for outcome in outcomes:
                failed = PartitionWork(name=outcome.task[1].entry.name, error=str(outcome.error))
                found[outcome.number] = outcome.result if outcome.error is None else failed
        for number, (path, _) in enumerate(tasks):
            before = planned[path]
            planned[path] = replace(before, partitions=(*before.partitions, found[number]))
        return planned

    def _why_not_opened(
        self, disk: DiskReader, directory: str, partition: Partition, found: FoundPartition
    ) -> PartitionWork | None:
        """The error if the run cannot open a log that it has to change; checked before the first change."""
        name = partition.name
        start, end = found.log_start_offset, partition.view.log_end_offset
        if end < start:
            words = (
                f"it ends at offset {end}, before its start at {start} in {LOG_START_OFFSET_CHECKPOINT}. A "
                "broker deletes all of it at its next start. Correct the checkpoint if it is wrong."
            )
            return PartitionWork(name=name, error=words)
        error = why_not_loaded(disk, self.clock, directory, name, partition.config)
        return None if error is None else PartitionWork(name=name, error=error, needs_recovery=True)

    def _do_directory(
        self,
        session: Session,
        directory: LogDirectory,
        plan: DirectoryWork,
        known: KnownTopics,
        work: Work,
        now: int,
        progress: ReadProgress,
    ) -> DirectoryWork:
        planned = [*plan.partitions]
        if not plan.folders and not any(partition.is_change for partition in planned):
            return plan
        try:
            doing = _Doing(self, directory, known, work, now)
        except StratalogError as failure:
            return _not_begun(directory.path, failure)
        error = None
        index = -1
        try:
            directory.before_change()
            for index, partition in enumerate(planned):
                if partition.is_change:
                    path = join_path(directory.path, partition.name)
                    with progress.part(path, partition.name) as on_read:
                        try:
                            planned[index] = doing.do(partition, on_read)
                        except NeedsRecoveryError as refusal:  # nothing was changed in the log
                            planned[index] = PartitionWork(
                                name=partition.name, error=str(refusal), needs_recovery=True
                            )
            index = len(planned)
            for folder in plan.folders:
                remove_directory(self.disk, folder.path)
            doing.write_checkpoints()
            session.put_back(directory)
        except StratalogError as failure:
            error = str(failure)
            planned[max(index, 0) :] = [_not_done(each, error) for each in planned[max(index, 0) :]]
        folders = plan.folders if error is None else ()
        return DirectoryWork(
            directory=directory.path, partitions=tuple(planned), error=error, folders=folders
        )

    def _folders(self, disk: DiskReader, path: str, now: int) -> tuple[WaitingFile, ...]:
        """The folders that are marked -delete, if they are to be removed, with the bytes in them."""
        if not self.purges:
            return ()
        found = []
        for name in classify(disk, path).waiting:
            entry = PartitionEntry(name, parse_partition_directory(name).topic_partition)
            if not self.names or is_named(entry, self.names):
                folder = join_path(path, name)
                size = sum(file.size for file in disk.list_directory(folder))
                found.append(WaitingFile(path=folder, size=size, due_ms=now))
        return tuple(found)


def _path(file: WaitingFile) -> str:
    return file.path


def _not_begun(path: str, error: StratalogError) -> DirectoryWork:
    return DirectoryWork(directory=path, error=str(error), is_begun=False)


def _not_done(planned: PartitionWork, error: str) -> PartitionWork:
    """A partition's result after a failure: the partition that failed may be changed, later ones are
    unchanged.

    A plan must not be reported as done; the next run finds what is left to do.
    """
    if not planned.is_change:
        return planned
    return PartitionWork(name=planned.name, error=f"the work stopped before its end: {error}")


class _Doing:
    """The work in one directory whose clean-shutdown file is gone."""

    def __init__(
        self, maintenance: Maintenance, directory: LogDirectory, known: KnownTopics, work: Work, now: int
    ) -> None:
        self._disk, self._clock, self._purges = maintenance.disk, maintenance.clock, maintenance.purges
        self._directory, self._known, self._work, self._now = directory, known, work, now
        self._entries = {entry.name: entry for entry in directory.layout.partitions}
        checkpoints = directory.checkpoints
        self._starts = checkpoints.log_start_offsets.read()
        self._watermarks = checkpoints.high_watermarks.read()
        self._cleaned = checkpoints.cleaner_offsets.read()
        self._marks: dict[TopicPartition, CheckpointMarks] = {}  # of the logs that were changed and closed

    def do(self, planned: PartitionWork, on_read: CountRead) -> PartitionWork:
        key = self._entries[planned.name].topic_partition
        path = join_path(self._directory.path, planned.name)
        delay_ms = self._known.of(key.topic).file_delete_delay_ms
        before = {file.path for file in waiting_files(self._disk, path, delay_ms)}
        done = planned
        if planned.changes_log:
            with self._opened(planned.name, key) as log:
                done = self._work.do(log, planned, self._cleaned.get(key), self._now, on_read)
            if done.cleaned is not None:
                self._marks[key] = replace(self._marks[key], cleaned_to=done.cleaned.end_offset)
        for file in waiting_files(self._disk, path, delay_ms):
            if file.path not in before:
                self._disk.set_modified(file.path, self._now)  # its delay starts now
        removed = tuple(waiting_files(self._disk, path, delay_ms)) if self._purges else planned.removed
        for file in removed:
            self._disk.delete(file.path)
        self._disk.sync_directory(path)
        return replace(done, removed=removed, waiting=tuple(waiting_files(self._disk, path, delay_ms)))

    @contextmanager
    def _opened(self, name: str, key: TopicPartition) -> Iterator[Log]:
        try:
            log = self._load(name, key)
        except NeedsRecoveryError:
            config = self._known.of(key.topic)
            repair_partition(self._disk, self._clock, self._directory, name, config, may_cut=False)
            log = self._load(name, key)
        try:
            log.update_high_watermark(self._watermarks.get(key, 0))
            yield log
            log.close()
        finally:
            log.close_handlers()
        # Its high watermark came from the checkpoint: only a broker knows a newer one.
        self._marks[key] = replace(CheckpointMarks.of(log), high_watermark=None)

    def _load(self, name: str, key: TopicPartition) -> Log:
        return load(
            disk=self._disk,
            clock=self._clock,
            scheduler=_NoLater(),
            directory=join_path(self._directory.path, name),
            topic_partition=key,
            config=self._known.of(key.topic),
            log_start_offset=max(0, self._starts.get(key, 0)),
            before_change=self._directory.before_change,
            keeps_deleted=True,
            kept_marks=self._directory.checkpoints.marks_of(key),
        )

    def write_checkpoints(self) -> None:
        self._directory.checkpoints.write_closed(self._marks.values())


class _NoLater:
    """A scheduler for a process that ends soon: it runs tasks that are due now, and drops later ones."""

    def schedule(self, name: str, task: ScheduledTask, delay_ms: int = 0) -> None:  # noqa: ARG002 (by protocol)
        if delay_ms <= 0:
            task()
