"""`recover_directories`: bring log directories to the state that a clean shutdown would have left.

Theory of operation. All directories that are to be recovered are locked before anything is changed in one of
them. For the others, which were shut down cleanly, it is only checked that no program uses them. Every
partition is surveyed, to find out what must be read. The scans of all partitions then go through the engine:
to the readers of each device, in the order of partitions and segments, or to a cluster. After the last scan
of a partition, another thread plans, applies and fsyncs it at once, so that only a few partitions' results
are in memory. If a directory fails, it gets no clean-shutdown file. The others get theirs, but without an
epoch, because the controller must not believe that nothing is lost. If a run is killed at any moment and
repeated, the result is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace

from stratalog.clock import Clock, system_clock
from stratalog.config import ServerConfig
from stratalog.directory.clean_shutdown import NO_PROMISE, CleanShutdown
from stratalog.directory.gone_logs import gone_logs
from stratalog.directory.kind import check_place
from stratalog.directory.layout import PartitionEntry, find_aliases
from stratalog.directory.locking import Locks, MakeLock
from stratalog.directory.log_directory import LogDirectory
from stratalog.directory.node import Node, find_node
from stratalog.directory.owners import current_user
from stratalog.directory.pending_move import finish_pending_move
from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.directory_recovery import DirectoryRecovery
from stratalog.directory.recovery.finishing import Finisher, PartitionRecovery
from stratalog.directory.recovery.progress import Phase
from stratalog.directory.recovery.result import PartitionReport, RecoveryReport
from stratalog.directory.recovery.room import FreeSpace, Room
from stratalog.directory.recovery.scanning import run_scans
from stratalog.directory.recovery.shutdown_epoch import (
    may_stand_beside_an_epoch,
    missing_directories,
    promise_of_the_killed_run,
)
from stratalog.directory.recovery.tasks import SurveyTask, survey
from stratalog.directory.session import RecoverySources, Session, Unclean
from stratalog.directory.topic_configs import TopicConfigs
from stratalog.directory.work_dir import WorkDirDisk
from stratalog.engine.progress import OnProgress, Progress, Remaining
from stratalog.engine.threads import ThreadEngine
from stratalog.errors import (
    DiskError,
    FileOwnerError,
    LogDirLockedError,
    NotALogDirectoryError,
    StratalogError,
)
from stratalog.files.disk import Disk
from stratalog.files.entries import FileId
from stratalog.files.lock import DirectoryLock
from stratalog.files.paths import prefix_of
from stratalog.files.reading import DiskReader
from stratalog.log.recovery.facts import Finding, FindingKind
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.log.recovery.survey import Survey, SurveyOptions


def recover_directories(
    directories: Sequence[str],
    *,
    disk: Disk | None = None,
    clock: Clock = system_clock,
    server: ServerConfig | None = None,
    topics: TopicConfigs | None = None,
    topic_settings: str | None = None,
    metadata_directory: str | None = None,
    options: RecoveryChoices | None = None,
    make_lock: MakeLock = DirectoryLock,
    on_progress: OnProgress | None = None,
) -> RecoveryReport:
    """Recover all log directories of one node, and return a report.

    The settings of topics come from `topics` if given, else from `__cluster_metadata` and `server`. The
    metadata is found by the rule of `node.py`, with `metadata_directory` as the node's metadata.log.dir.
    `topic_settings`, a user's JSON (`topic_configs.py`), overrides either.

    NotALogDirectoryError if one of them is something else, LogDirLockedError if one is in use, FileOwnerError
    if files could not keep their owner: then nothing was changed anywhere. A directory that is missing or
    empty, perhaps because its disk is not mounted, fails alone.
    """
    options = options or RecoveryChoices()
    if disk is None and options.work_dir is not None:
        disk = WorkDirDisk(options.work_dir, require_owner=True)
    elif disk is None:
        disk = Disk(require_owner=True)
    sources = RecoverySources(server, topics, topic_settings, metadata_directory, on_progress)
    # The session is not opened, because that would lock all directories, even clean ones, and in a dry run
    # too.
    session = Session(directories, unclean=Unclean.RECOVER, disk=disk, clock=clock, make_lock=make_lock)
    try:
        return recover_in_session(session.directories, sources, disk, clock, options, make_lock)
    finally:
        session.release()


def recover_in_session(
    directories: Sequence[LogDirectory],
    sources: RecoverySources,
    disk: Disk,
    clock: Clock,
    options: RecoveryChoices,
    make_lock: MakeLock = DirectoryLock,
) -> RecoveryReport:
    """Recover directories of a session, as `recover_directories` does; the session releases the locks."""
    found = [DirectoryRecovery(disk, each, dry_run=options.dry_run) for each in directories]
    return _Recovery(found, disk, clock, options, sources.on_progress, make_lock).run(sources)


class _Recovery:
    def __init__(
        self,
        directories: list[DirectoryRecovery],
        disk: Disk,
        clock: Clock,
        options: RecoveryChoices,
        on_progress: OnProgress | None,
        make_lock: MakeLock,
    ) -> None:
        self._make_lock = make_lock
        self._place_locks: list[Locks] = []
        self._disk = disk
        self._clock = clock
        self._options = options
        self._on_progress = on_progress
        self._directories = directories
        self._notes: list[str] = []
        self._node = Node()
        self._topics = TopicConfigs()
        self._reading = Progress()
        self._work: list[PartitionRecovery] = []
        self._quarantines: dict[str, Quarantine] = {}

    def run(self, settings: RecoverySources) -> RecoveryReport:
        began_s = time.monotonic()
        try:
            self._begin()
            self._find_node(settings)
            self._look()
            self._recover_partitions()
            self._tell(Phase.FINISHING)
            self._end()
        finally:
            for directory in self._directories:
                # From now on a broker may use the files again: none stays open here.
                self._disk.release(directory.path)
            for lock in self._place_locks:
                lock.release()
        self._tell(Phase.DONE)
        return RecoveryReport(
            directories=tuple(directory.report() for directory in self._directories),
            devices=self._reading.devices,
            notes=tuple(self._notes),
            remarks=tuple(found.remark for found in self._directories if found.remark is not None),
            seconds=time.monotonic() - began_s,
        )

    def _begin(self) -> None:
        """Lock the directories that are not left alone, and finish interrupted moves there."""
        self._tell(Phase.SURVEYING)
        places = {"--quarantine": self._options.quarantine, "--work-dir": self._options.work_dir}
        for option, place in places.items():
            if place is not None:
                check_place(self._disk, place, [found.path for found in self._directories], option=option)
        for directory in self._directories:
            self._disk.release(directory.path)
        user = current_user() if self._options.user is None else self._options.user
        for directory in self._directories:
            self._guarded(directory, directory.check_kind, refusal=NotALogDirectoryError)
        for directory in self._alive():
            refused = (LogDirLockedError, FileOwnerError)
            self._guarded(directory, directory.begin, self._options.scan_all, user, refusal=refused)
        for directory in self._alive():
            self._guarded(directory, directory.check_owners, user, refusal=FileOwnerError)
        if not self._options.dry_run:
            self._lock_places()
        for directory in self._alive():
            directory.expect_changes()
        if isinstance(self._disk, WorkDirDisk) and not self._options.dry_run:
            locked = [directory for directory in self._alive() if not directory.is_left_alone]
            for directory in locked:
                self._guarded(directory, self._disk.resume, [directory.path])
        if not self._options.dry_run:
            locked_paths = {found.path for found in self._alive() if not found.is_left_alone}
            for directory in self._alive():
                if directory.path in locked_paths:
                    self._guarded(directory, finish_pending_move, self._disk, directory.path, locked_paths)

    def _owner_of(self, path: str) -> DirectoryRecovery:
        """The log directory that contains a partition, by the partition's path."""
        return next(found for found in self._directories if path.startswith(prefix_of(found.path)))

    def _lock_places(self) -> None:
        """Lock --quarantine and --work-dir outside of the log directories: two runs may use the same names.

        Names in quarantine contain the partition's name, and another broker may have the same partition.
        """
        known = {_identity(self._disk, directory.path) for directory in self._directories}
        for place in (self._options.quarantine, self._options.work_dir):
            if place is not None and (identity := _identity(self._disk, place)) not in known:
                known.add(identity)
                self._place_locks.append(Locks(place, self._make_lock))
                self._place_locks[-1].take()

    def _find_node(self, settings: RecoverySources) -> None:
        self._node = find_node(
            self._disk,
            [directory.path for directory in self._alive()],
            server=settings.server,
            metadata_directory=settings.metadata_directory,
            is_damaged=True,
        )
        self._notes += self._node.notes
        self._topics = (
            self._node.topic_configs(settings.server) if settings.topics is None else settings.topics
        )
        if settings.topic_settings is not None:
            self._topics = self._topics.with_file(settings.topic_settings)

    def _look(self) -> None:
        """Finish interrupted writes, and look into all directories."""
        metadata, node_id = self._node.metadata, self._node.node_id
        registration = None
        if metadata is not None and node_id is not None:
            registration = metadata.broker_epochs.get(node_id)
        spaces: dict[int, FreeSpace] = {}
        has_work_dir = self._options.work_dir is not None
        for directory in self._alive():
            self._guarded(directory, directory.look, registration)
            self._guarded(directory, directory.look_for_earlier_cuts, self._quarantines_of(directory))
            if self._options.dry_run and not directory.is_left_alone:
                directory.room = Room.find(self._disk, directory.path, spaces, has_work_dir=has_work_dir)
        everywhere = [(found.path, entry) for found in self._alive() for entry in found.layout.partitions]
        for path, other in find_aliases(self._disk, everywhere).items():
            owner = self._owner_of(path)
            if not owner.is_left_alone:
                reason = (
                    f"it is another name of {other}. Remove the link: a broker treats it as a second "
                    "partition."
                )
                owner.fail(DiskError(path, reason))
        for directory in self._alive():
            self._guarded(directory, directory.look_for_topic_ids, self._node.metadata, self._node.node_id)
        if not self._has_failed:  # a log may be in the directory that failed
            gone = gone_logs([directory.listed() for directory in self._directories], self._node)
            for directory in self._directories:
                directory.gone_logs = [each for each in gone if each.directory == directory.path]

    def _recover_partitions(self) -> None:
        self._survey()
        for directory in self._alive():
            if not self._options.dry_run and not directory.is_left_alone:
                self._guarded(directory, directory.take_marker)
        self._tell(Phase.SCANNING)  # before the work, so that even quick work shows the stage
        options = self._options
        with Finisher(
            self._disk, self._quarantines_of, dry_run=options.dry_run, on_plan=options.on_plan
        ) as finisher:
            for work in self._work:
                if not work.survey.scans:
                    finisher.put(work)
            scanning = run_scans(self._work, options, disk=self._disk, on_progress=self._note_reading)
            with closing(scanning) as scanned:
                for work, task, result in scanned:
                    if isinstance(result, StratalogError):
                        work.directory.fail(result)
                    elif work.add(task, result):
                        finisher.put(work, on_wait=lambda: self._tell(Phase.SCANNING))

    def _note_reading(self, progress: Progress) -> None:
        self._reading = progress
        self._tell(Phase.SCANNING)

    def _survey(self) -> None:
        """Find out what must be read, directory by directory; devices are read in parallel."""
        found = [(directory, entry) for directory in self._alive() for entry in directory.layout.partitions]
        outcomes = ThreadEngine(1, disk=self._disk).run(
            survey,
            [self._survey_task(directory, entry) for directory, entry in found],
            paths=[directory.path for directory, _ in found],
            is_wanted=lambda number: found[number][0].error is None,
        )
        with closing(outcomes):
            for outcome in outcomes:
                directory, entry = found[outcome.number]
                if outcome.error is not None:
                    directory.fail(outcome.error)
                else:
                    self._take_survey(directory, entry, outcome.result)
        order = {directory.path: number for number, directory in enumerate(self._directories)}
        self._work.sort(key=lambda work: (order[work.directory.path], work.entry))
        self._work = [work for work in self._work if work.directory.error is None]

    def _survey_task(self, directory: DirectoryRecovery, entry: PartitionEntry) -> SurveyTask:
        return SurveyTask(
            directory=directory.path_of(entry),
            topic_partition=entry.topic_partition,
            config=self._topics.of(entry.topic_partition.topic),
            recovery_point=directory.recovery_points.get(entry.topic_partition, 0),
            log_start_offset=directory.log_start_offsets.get(entry.topic_partition, 0),
            unknown_start=directory.start_problem(entry),
            now_ms=self._clock(),
            options=SurveyOptions(
                had_clean_shutdown=directory.is_left_alone,
                scan_all=self._options.scan_all,
                salvage=self._options.salvage,
                keep_open_transactions=self._options.keep_open_transactions,
            ),
        )

    def _take_survey(self, directory: DirectoryRecovery, entry: PartitionEntry, survey: Survey) -> None:
        if directory.is_left_alone:
            directory.partitions[entry.name] = PartitionReport(
                name=entry.name,
                topic_partition=entry.topic_partition,
                findings=tuple(_left_as_it_is(found) for found in survey.findings),
            )
            if survey.end_offset is not None:
                directory.clean_ends[entry] = survey.end_offset
            elif not survey.inventory.segments:  # a broker begins a new log at its start
                directory.clean_ends[entry] = survey.settings.log_start_offset
        else:
            self._work.append(PartitionRecovery(directory, entry, survey))

    def _end(self) -> None:
        """Checkpoints, then clean-shutdown files: the epoch in them depends on all directories."""
        for directory in self._alive():
            self._guarded(directory, directory.complete, self._is_tiered, self._quarantines_of(directory))
            self._guarded(directory, self._settle, directory)
        promise = NO_PROMISE
        if self._options.process_crash:
            promise, why_not = promise_of_the_killed_run(
                self._directories, self._node.metadata, self._node.node_id
            )
            self._notes += [why_not] if why_not else []
        ready = [directory for directory in self._alive() if not directory.is_left_alone]
        for directory in ready:
            self._guarded(directory, self._write_clean_shutdown, directory, promise)
        if self._has_failed:
            # A directory got no clean-shutdown file, so the epoch in the other files no longer holds.
            for directory in ready:
                self._guarded(directory, self._write_clean_shutdown, directory, NO_PROMISE)
        # Only now: if the run is killed before, the next one must still find what this one has cut off.
        for directory in self._alive():
            directory.forget_earlier_cuts()

    def _write_clean_shutdown(self, directory: DirectoryRecovery, promise: CleanShutdown) -> None:
        # If there was a clean-shutdown file, only its own epoch can be kept. If it had none, there may be a
        # reason for that.
        own = directory.own_promise() if directory.state.note.was_clean else promise
        wanted = NO_PROMISE if self._has_failed else own
        if directory.written is None or (directory.written.has_epoch and wanted != directory.written):
            is_beside_epoch = not wanted.has_epoch and self._may_be_beside_an_epoch(directory)
            directory.end(wanted.beside_epoch() if is_beside_epoch else wanted)
            self._settle(directory)

    def _may_be_beside_an_epoch(self, directory: DirectoryRecovery) -> bool:
        missing = missing_directories(self._directories, self._node.metadata, self._node.node_id)
        return may_stand_beside_an_epoch(directory, self._directories, has_missing=bool(missing))

    def _settle(self, directory: DirectoryRecovery) -> None:
        """On a full disk: write the files that wait in the work directory, before others depend on them."""
        if isinstance(self._disk, WorkDirDisk):
            self._disk.settle(directory.path)

    @property
    def _has_failed(self) -> bool:
        return any(directory.error is not None for directory in self._directories)

    def _alive(self) -> list[DirectoryRecovery]:
        return [directory for directory in self._directories if directory.error is None]

    def _guarded(
        self,
        directory: DirectoryRecovery,
        action: Callable[..., object],
        *arguments: object,
        refusal: type[StratalogError] | tuple[type[StratalogError], ...] = (),
    ) -> None:
        """Do something in one directory; an error fails only that directory, a `refusal` the whole run."""
        if directory.error is not None:
            return
        try:
            action(*arguments)
        except StratalogError as error:
            if isinstance(error, refusal):
                raise
            directory.fail(error)

    def _is_tiered(self, topic: str) -> bool:
        return self._topics.of(topic).remote_storage_enable

    def _quarantines_of(self, directory: DirectoryRecovery) -> list[Quarantine]:
        if not self._options.keeps_cuts:
            return []
        places = [self._options.quarantine or directory.path]
        if self._options.work_dir is not None:
            places.append(self._options.work_dir)
        return [
            self._quarantines.setdefault(place, Quarantine(self._disk, place, clock=self._clock))
            for place in places
        ]

    def _tell(self, phase: Phase) -> None:
        if self._on_progress is None:
            return
        remaining = {directory.path: [0, 0] for directory in self._directories}
        for work in self._work:
            counts = remaining[work.directory.path]
            counts[0] += not work.is_finished
            counts[1] += work.segments_remaining
        self._on_progress(
            replace(
                self._reading if phase is Phase.SCANNING else Progress(),
                stage=phase,
                remaining=tuple(
                    Remaining(directory=path, logs=logs, segments=segments)
                    for path, (logs, segments) in remaining.items()
                ),
            )
        )


def _identity(disk: DiskReader, path: str) -> FileId | None:
    status = disk.status(path)
    return None if status is None else status.id


def _left_as_it_is(finding: Finding) -> Finding:
    """The finding for a directory that was shut down cleanly: nothing is changed without --all."""
    if finding.kind in (FindingKind.UNKNOWN_START, FindingKind.MISSING_RECORDS):
        return finding  # --all would not change it
    words = "The directory was shut down cleanly, so nothing is changed. With --all:"
    return replace(finding, consequence=f"{words} {finding.consequence}")
