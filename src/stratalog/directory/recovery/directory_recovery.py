"""The recovery of one log directory, from its lock to its clean-shutdown file.

The caller recovers the partitions.

1. lock it (not in a dry run; without `--all`, a clean directory is not locked, and only read)
2. check that all files can keep their owner; read the listing, the checkpoints, meta.properties
3. remove the clean-shutdown file (`clean_state.py`), if there is one
4. partitions: survey, scan, plan, apply, fsync
5. recovery points at the log ends, high watermarks clamped, topic ids that were missing
6. the clean-shutdown file, when steps 1 to 5 are done for all directories: its epoch depends on all of them

Kafka: LogManager.loadLogs, LogManager.shutdown
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from uuid import uuid4

from stratalog.directory.checkpoint_table import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CheckpointMarks,
)
from stratalog.directory.checkpoints import DirectoryCheckpoints, clamp
from stratalog.directory.clean_shutdown import NO_PROMISE, UNKNOWN_EPOCH, CleanShutdown
from stratalog.directory.cluster_metadata import ClusterMetadata
from stratalog.directory.gone_logs import GoneLog, PlacedLogs
from stratalog.directory.kind import kind_of
from stratalog.directory.layout import Layout, PartitionEntry, Problem, classify
from stratalog.directory.log_directory import LogDirectory, why_unclean
from stratalog.directory.lone_files import LoneFiles
from stratalog.directory.lone_logs import check_not_in_use, lone_files
from stratalog.directory.meta_properties import MetaProperties, read_meta_properties
from stratalog.directory.owners import check_owners, current_groups
from stratalog.directory.pending_write import finish_pending_write
from stratalog.directory.recovery.earlier_cuts import EarlierCuts, find_earlier_cuts, lost_before
from stratalog.directory.recovery.result import DirectoryReport, Outcome, PartitionReport
from stratalog.directory.recovery.room import HINT, Room
from stratalog.directory.recovery.topic_ids import TopicIds
from stratalog.directory.short_logs import short_logs
from stratalog.directory.work_dir import WorkDirDisk
from stratalog.directory.write_journal import has_pending_write, read_journal
from stratalog.errors import AccessDeniedError, CorruptCheckpointError, DiskError
from stratalog.files.disk import Disk
from stratalog.files.lock import check_lockable
from stratalog.files.names import LEADER_EPOCH_CHECKPOINT, DirectoryState, TopicPartition
from stratalog.files.paths import join_path
from stratalog.files.refusals import FULL_DISK
from stratalog.log.epochs import read_epochs
from stratalog.log.recovery.plan import MISSING
from stratalog.log.recovery.quarantine import KeepingRun, Quarantine
from stratalog.log.task_folders import remove_task_folders


class DirectoryRecovery:
    """One directory of a session during its recovery. `error` says why it failed; then nothing more is done
    in it.

    The session's directory owns the lock and the clean-shutdown file. Locks that it already holds stay held.
    """

    def __init__(self, disk: Disk, directory: LogDirectory, *, dry_run: bool) -> None:
        self.path = path = directory.path
        self.error: str | None = None
        self.remark: str | None = None  # a sentence on groups that files cannot keep, which is harmless
        self.state = directory.state
        self.locks = directory.locks
        self._directory = directory
        self._lone: list[LoneFiles] = []
        self._lone_starts: dict[TopicPartition, int] = {}
        self.layout = Layout(path, (), (), (), (), ())
        self.meta: MetaProperties | None = None
        self.is_left_alone = False
        self.gone_logs: list[GoneLog] = []  # in the checkpoints of this directory, and in no directory
        self.recovery_points: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}  # as they were before the run
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self._lacks_checkpoints = False
        self.unknown_start = ""  # why it is not known where the logs start
        self.problems: list[Problem] = []
        self.partitions: dict[str, PartitionReport] = {}
        self.room: Room | None = None  # on its device, for a dry run
        self.earlier_cuts = EarlierCuts()
        self._had_cut = False  # when it was found: an earlier run has noted it, and did not end
        self._run = uuid4().hex  # this recovery, in the note and in the manifests
        self.clean_ends: dict[PartitionEntry, int] = {}  # of logs that are left alone
        self._disk = disk
        self._dry_run = dry_run
        self._checkpoints = DirectoryCheckpoints(disk, path)
        self._topic_ids = TopicIds(disk, self.layout)
        self.written: CleanShutdown | None = None  # the clean-shutdown file

    def fail(self, error: Exception) -> None:
        if self.error is None:
            is_full = isinstance(error, DiskError) and error.errno in FULL_DISK and HINT not in str(error)
            has_work_dir = isinstance(self._disk, WorkDirDisk)
            self.error = f"{error} {HINT}" if is_full and not has_work_dir else str(error)

    def check_kind(self) -> None:
        """NotALogDirectoryError if it is something else; that stops the run for all directories."""
        found = kind_of(self._disk, self.path)
        if found.may_become_one:  # perhaps a disk that is not mounted: the node's other directories go on
            raise DiskError(self.path, f"there is no log directory here: {found.refusal().reason}")
        if not found.is_log_directory:
            raise found.refusal()

    def begin(self, scan_all: bool, user: int) -> None:
        """Lock it, or check that it is not locked; LogDirLockedError stops the run for all directories.

        If this user may not lock it, a FileOwnerError says whose it is, as in a dry run.
        """
        self.is_left_alone = self._may_be_left_alone(scan_all)
        if self.locks.are_held:
            self.locks.check()
        elif self.is_left_alone or self._dry_run:
            # A dry run takes no lock, not even for a moment: it could keep a broker from starting.
            check_not_in_use(self._disk, self.path)
            if not self.is_left_alone:
                check_lockable(self._disk, self.path)  # the run would take the lock
        else:
            try:
                self._directory.lock()
            except AccessDeniedError:
                self.check_owners(user)
                raise
            # A broker may have shut down cleanly just before.
            self.is_left_alone = self._may_be_left_alone(scan_all)

    def expect_changes(self) -> None:
        """All checks have passed: from here on files are changed, unless the directory is left alone."""
        if not self.is_left_alone and not self._dry_run:
            self._directory.is_changed = True

    def _may_be_left_alone(self, scan_all: bool) -> bool:
        self.state.look()
        if scan_all or not self.state.file.exists() or not self.state.note.earlier.are_told:
            return False
        return why_unclean(self._disk, classify(self._disk, self.path), has_clean_shutdown=True) is None

    def check_owners(self, user: int) -> None:
        """FileOwnerError unless every file that may be changed can keep its owner.

        Called before any change.
        """
        if not self.is_left_alone:
            layout = classify(self._disk, self.path)
            self.remark = check_owners(self._disk, layout, user, current_groups())

    def look(self, registration: int | None) -> None:
        """Read its own files, not the partitions'. Read-only, except that it completes a pending write.

        `registration` is the epoch of the broker's last registration, if it is known.
        """
        self.state.look()
        self.state.know_registration(registration)
        if not self.is_left_alone:
            self.state.file.check()
        if self._dry_run:
            read_journal(self._disk, self.path)  # a run fails too if it is damaged
        elif has_pending_write(self._disk, self.path):
            self.locks.check()
            self.state.remove()
            finish_pending_write(self._disk, self.path)
        self.layout = classify(self._disk, self.path)
        with suppress(CorruptCheckpointError):  # a broker refuses to start: see `startup_refusals.py`
            self.meta = read_meta_properties(self._disk, self.path)
        found = {checkpoint.name: checkpoint.read() for checkpoint in self._checkpoints.every}
        self.recovery_points = found[RECOVERY_POINTS.name]
        self.log_start_offsets = found[LOG_START_OFFSETS.name]
        self._high_watermarks = found[HIGH_WATERMARKS.name]
        self.problems += self._checkpoint_problems()
        if why := self._checkpoints.why_lost(LOG_START_OFFSETS):
            self.unknown_start = f"{LOG_START_OFFSETS.name}: {why}."
        elif not any(checkpoint.exists for checkpoint in self._checkpoints.every):
            self.unknown_start = f"{LOG_START_OFFSETS.name}: it is missing, as all checkpoints are."
            self._lacks_checkpoints = True
        if not self.is_left_alone:
            for entry in self.layout.partitions:
                self._look_at_lone_log(entry)

    def listed(self) -> PlacedLogs:
        return PlacedLogs(
            layout=self.layout,
            directory_id=None if self.meta is None else self.meta.directory_id,
            recovery_points=self.recovery_points,
            high_watermarks=self._high_watermarks,
        )

    def look_for_earlier_cuts(self, quarantines: Sequence[Quarantine]) -> None:
        """Find what killed or failed recoveries have cut off; to be called before this one keeps anything."""
        if self.is_left_alone:
            return
        earlier = self.state.note.earlier
        self._had_cut = self.state.note.has_cut
        self.earlier_cuts = find_earlier_cuts(self._disk, self.path, earlier, quarantines)
        run = KeepingRun(self._run, frozenset({self._run, *earlier.runs}), self._note_kept)
        for place in quarantines:
            place.begin_run(self.path, run)

    def _checkpoint_problems(self) -> Iterator[Problem]:
        """What is wrong with the checkpoints that have been read, and what that means."""
        for checkpoint in self._checkpoints.every:
            row, problem = checkpoint.row, checkpoint.problem
            if self.is_left_alone:
                if problem is not None:
                    yield problem._replace(consequence=f"{problem.consequence}; {row.without_it}")
            elif problem is not None:
                words = f"recovery rewrites it; {row.without_it}"
                yield problem._replace(consequence=words, is_repaired=not row.hides_loss)
            elif row.hides_loss and (why := self._checkpoints.why_lost(row)):
                yield Problem(row.name, why, row.without_it)

    def start_problem(self, entry: PartitionEntry) -> str:
        """Why the start of a log is not known; empty if it is known.

        If no checkpoint was ever written, it is known too, unless the leader epochs contradict.
        """
        if entry.topic_partition in self._lone_starts:
            return ""
        return "" if self._lacks_checkpoints and not self._has_epochs(entry) else self.unknown_start

    def _has_epochs(self, entry: PartitionEntry) -> bool:
        with suppress(CorruptCheckpointError, DiskError):  # the survey reports it
            return bool(read_epochs(self._disk, join_path(self.path_of(entry), LEADER_EPOCH_CHECKPOINT)))
        return False

    def _look_at_lone_log(self, entry: PartitionEntry) -> None:
        """If the log was a lone log, use its own start offset, which the directory's checkpoint may lack."""
        files = lone_files(self._disk, self.layout, entry)
        if entry.state is not DirectoryState.LIVE or not files.exist():
            return
        self._lone.append(files)
        key, start = entry.topic_partition, files.start_offset()
        known = self.recovery_points.pop(key, None)
        # If the directory's checkpoints know the log, they may be newer than these files, and the log may
        # have been created again since: so a start offset outside the log is ignored.
        if start > self.log_start_offsets.get(key, 0) and (known is None or start <= known):
            self.log_start_offsets[key] = self._lone_starts[key] = start

    def look_for_topic_ids(self, metadata: ClusterMetadata | None, node_id: int | None) -> None:
        """Find out which partitions lack their topic's id, and whether it is known."""
        self._topic_ids = TopicIds(self._disk, self.layout)
        self.problems += self._topic_ids.look(
            self.meta, metadata, node_id=node_id, is_left_alone=self.is_left_alone
        )

    def take_marker(self) -> None:
        """Remove the clean-shutdown file, if there is one, before the first change."""
        self.locks.check()
        self.state.remove()

    def note_cut(self) -> None:
        """Record that more than a torn tail is cut off or missing; this may be the first change here."""
        if self._dry_run:
            self.state.note = replace(self.state.note, has_cut=True)  # only in memory
            return
        self.locks.check()
        self.state.note_cut()

    def note_recovery(self, quarantines: Sequence[Quarantine]) -> None:
        """Record that this recovery cuts something off, so that the next one reports it if this one is
        killed."""
        if self._dry_run:
            return
        self.locks.check()
        with _enough_without_room():
            self.state.note_recovery(self._run, [place.directory for place in quarantines])

    def _note_kept(self, place: str) -> None:
        with _enough_without_room():
            self.state.note_kept(place)

    def complete(self, is_tiered: Callable[[str], bool], quarantines: Sequence[Quarantine]) -> None:
        """Write the checkpoints and the missing topic ids; all partitions are synced by now."""
        self.problems += [gone.problem for gone in self.gone_logs]
        if self.is_left_alone:
            self.problems += short_logs(self._checkpoints, sorted(self.clean_ends.items()))
            return
        # Backwards by name, so that the marks of a log replace those of its future copy in the same
        # directory.
        ends = {found.topic_partition: found for _, found in sorted(self.partitions.items(), reverse=True)}
        is_short = self._find_short_logs(ends) or bool(self._checkpoints.why_lost(HIGH_WATERMARKS))
        if is_short or self.gone_logs:
            self.note_cut()  # before writing the checkpoint, whose old content shows it
        self.problems += self.earlier_cuts.problems()
        if self._had_cut and not is_short and not self._tells_loss:
            self.problems.append(lost_before())
        if self._dry_run:
            if self.room is not None:
                self.room.settle()
            return
        self.locks.check()
        self._topic_ids.write(quarantines)
        self._checkpoints.write_closed([*self._marks(ends, is_tiered)], are_all=True)
        for files in self._lone:
            files.hand_over()
        if self.state.has_note:  # a session was killed, perhaps during a compaction on a cluster
            for entry in self.layout.partitions:
                with suppress(DiskError):  # a broker ignores what is left
                    remove_task_folders(self._disk, self.path_of(entry))

    def end(self, content: CleanShutdown) -> None:
        """Write the clean-shutdown file, or in a dry run only remember what it would say."""
        if not self._dry_run:
            self.locks.check()
            self.state.put_back(content)
        self.written = content

    def forget_earlier_cuts(self) -> None:
        """The run has ended in all directories, and its report has them."""
        if not self._dry_run and self.written is not None:
            with suppress(DiskError):  # the next run reports them again
                self.state.forget_earlier()

    def own_promise(self) -> CleanShutdown:
        """What the clean-shutdown file said, if it had an epoch that still holds; otherwise no epoch."""
        note = self.state.note
        if not note.was_clean or not note.said.has_epoch or note.has_cut or self.has_cuts:
            return NO_PROMISE
        return note.said

    @property
    def _epoch(self) -> int | None:
        """For the report: -1 for a clean-shutdown file without an epoch, None if there will be none."""
        content = self.state.note.said if self.is_left_alone else self.written
        if content is None:
            return None
        epoch = content.broker_epoch
        return UNKNOWN_EPOCH if epoch is None else epoch

    @property
    def _tells_loss(self) -> bool:
        """Whether this report has cuts or missing records, its own or those of earlier runs."""
        findings = (finding.kind for found in self.partitions.values() for finding in found.findings)
        return (
            self.has_cuts
            or bool(self.gone_logs)
            or bool(self.earlier_cuts.lines or self.earlier_cuts.unknown)
            or not MISSING.isdisjoint(findings)
        )

    @property
    def has_cuts(self) -> bool:
        return any(found.cuts for found in self.partitions.values())

    def report(self) -> DirectoryReport:
        if self.error is not None:
            outcome = Outcome.FAILED
        elif self.is_left_alone:
            outcome = Outcome.CLEAN
        else:
            outcome = Outcome.PLANNED if self._dry_run else Outcome.RECOVERED
        return DirectoryReport(
            directory=self.path,
            outcome=outcome,
            partitions=tuple(self.partitions[name] for name in sorted(self.partitions)),
            problems=tuple(self.problems),
            left_alone=self.layout.left_alone,
            broker_epoch=self._epoch,
            error=self.error,
            topic_ids=self._topic_ids.wanted,
            cut_before=self.earlier_cuts.size,
            kept_before=self.earlier_cuts.kept_size,
            has_unknown_cuts=bool(self.earlier_cuts.unknown),
            freed_size=0 if self.room is None else self.room.freed_size,
        )

    def path_of(self, entry: PartitionEntry) -> str:
        return self.layout.path(entry)

    def _find_short_logs(self, ends: dict[TopicPartition, PartitionReport]) -> bool:
        """Find logs that end before their high watermark: records are gone, although none was cut off.

        A power cut can remove the end of a file without leaving half a batch.
        """
        is_short = False
        for key, offset in sorted(self._checkpoints.high_watermarks.read().items()):
            found = ends.get(key)
            if found is None or offset <= (found.log_end_offset or 0) or found.cuts:
                continue  # a cut is reported already
            is_short = True
            words = f"it ends at offset {found.log_end_offset}, its high watermark was {offset}"
            self.problems.append(
                Problem(found.name, words, "committed records are missing, at least in this replica")
            )
        return is_short

    def _marks(
        self, ends: dict[TopicPartition, PartitionReport], is_tiered: Callable[[str], bool]
    ) -> Iterator[CheckpointMarks]:
        """What the checkpoints store about logs that are on the device up to their ends."""
        watermarks = self._checkpoints.high_watermarks.read()
        for key, found in ends.items():
            start, end = found.log_start_offset or 0, found.log_end_offset or 0
            is_remote, mark = is_tiered(key.topic), watermarks.get(key)
            yield CheckpointMarks(
                topic_partition=key,
                recovery_point=end,
                start_to_keep=start if start > (found.first_base_offset or 0) else None,
                is_tiered=is_remote and key not in self._lone_starts,
                # The remote part of a tiered topic begins below all local segments.
                high_watermark=None if mark is None else clamp(mark, 0 if is_remote else start, end),
            )


@contextmanager
def _enough_without_room() -> Iterator[None]:
    """For a note of cuts: it is worth less than the recovery, and a cut may free the block that it needs."""
    try:
        yield
    except DiskError as error:
        if error.errno not in FULL_DISK:
            raise
