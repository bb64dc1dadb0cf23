"""Moves the segments that the tasks have staged into the logs: all of them, or none.

1. A session locks the directory; it waits for other writes, which hold the lock only for moments. The session
   finishes an interrupted write, and recovers a directory that was not shut down cleanly.
2. The end and the leader epoch of each log are read.
3. Base offsets and epochs are set in the staged files, and synced.
4. The clean-shutdown file is removed; the session's note keeps its content.
5. The journal names every staged file and its place. From here on the write will be completed, by this
   process or the next.
6. The files are renamed into their logs (`directory/pending_write.py`).
7. The logs are loaded and closed as at a clean shutdown. Then, unless the option sync is false, the
   checkpoints are written, and last the clean-shutdown file again, with its epoch.

If the process is killed before step 5 is complete, the directory has nothing of the write: recovery finds no
new file in a log. If it is killed later, the next open completes the write. If the disk refuses the journal,
the directory stays as it was.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from uuid import UUID

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.directory.checkpoint_table import CheckpointMarks
from stratalog.directory.checkpoints import DirectoryCheckpoints
from stratalog.directory.locking import Locks, MakeLock
from stratalog.directory.partitions import FoundPartition, list_partitions
from stratalog.directory.pending_write import finish_pending_write, is_of_another_topic, staged_path
from stratalog.directory.session import RecoverySources, Session, Unclean, open_session
from stratalog.directory.views import open_view
from stratalog.directory.write_journal import (
    Journal,
    PartitionWrite,
    PendingWrite,
    StagedSegment,
    has_pending_write,
    read_journal,
    write_journal,
)
from stratalog.directory.written_topics import note_written_topics
from stratalog.errors import DiskError, LogDirLockedError, NeedsRecoveryError, StratalogError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from stratalog.files.names import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    FileKind,
    TopicPartition,
    segment_file_name,
)
from stratalog.files.paths import join_path
from stratalog.jobs.writing.patch import patch_segment
from stratalog.jobs.writing.stage import Staged, discard_abandoned, discard_write, has_staged
from stratalog.jobs.writing.target import WriteTarget, has_other_writes
from stratalog.log.epochs import LeaderEpochFileCache
from stratalog.log.loader import load
from stratalog.log.log_end import EndReason
from stratalog.log.partition_metadata import PartitionMetadataFile, topic_id_to_text
from stratalog.log.producers.snapshot import build_snapshot
from stratalog.log.scheduler import ScheduledTask
from stratalog.segment.scan import scan_segment

logger = logging.getLogger(__name__)

Sleep = Callable[[float], None]

# How long a commit waits while other writes are under way: each holds the lock while it syncs its files. The
# .task file of a killed write stays for a day. During that day it is taken for a running write, so a broker's
# lock is reported only after this wait.
WAIT_SECONDS = 60
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteReport:
    """What a commit did: where each log ends now, and how many records were written.

    `was_there`: this batch of a streaming query was already committed, and was not written again.
    `warning` says what to do about new partitions that no cluster's metadata knows, if there are some.
    """

    ends: dict[TopicPartition, int]
    records_count: int
    was_there: bool = False
    warning: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The end of one log, where a write continues."""

    end_offset: int
    leader_epoch: int
    previous: tuple[int, int] | None
    is_new: bool
    topic_id: UUID | None


class Committer:
    """Commits or discards one write to a log directory.

    `stream` is the common prefix of the names of all writes of its stream, if it belongs to one.
    """

    def __init__(
        self,
        disk: Disk,
        target: WriteTarget,
        write: str,
        *,
        stream: str = "",
        clock: Clock,
        make_lock: MakeLock = DirectoryLock,
        sleep: Sleep = time.sleep,
    ) -> None:
        self._disk = disk
        self._target = target
        self._directory = target.directory
        self._write = write
        self._stream = stream
        self._clock = clock
        self._make_lock = make_lock
        self._sleep = sleep

    def commit(self, staged: Sequence[Staged], *, query: str | None = None, batch: int = -1) -> WriteReport:
        """Put the staged segments into their logs, in the given order.

        They are on the device when this returns, unless the option sync is false. LogDirLockedError if the
        directory is in use. After an error before the journal is written, the logs have nothing of the write.
        """
        for _ in range(round(WAIT_SECONDS / POLL_SECONDS)):
            # Checked before and after the attempt: a write that holds the lock may start after the first
            # check, or end before the second.
            is_alone = not self._has_others()
            try:
                return self._commit(staged, query, batch)
            except LogDirLockedError:
                if is_alone and not self._has_others():
                    raise
            self._sleep(POLL_SECONDS)
        return self._commit(staged, query, batch)

    def _has_others(self) -> bool:
        return has_other_writes(self._disk, self._directory, self._write)

    def _commit(self, staged: Sequence[Staged], query: str | None, batch: int) -> WriteReport:
        with self._session() as session:
            journal = read_journal(self._disk, self._directory)
            if journal.has(query, batch):
                return WriteReport(ends={}, records_count=0, was_there=True)
            writes = self._plan(journal, staged)
            pending = PendingWrite(write=self._write, partitions=writes, query=query, batch=batch)
            ends = self._do(session, journal, pending)
            return WriteReport(
                ends=ends,
                records_count=sum(write.records_count for write in writes),
                warning=self._warn_of_unknown(writes),
            )

    def _session(self) -> Session:
        return open_session(
            [self._directory],
            unclean=Unclean.RECOVER,
            sources=RecoverySources(
                topics=self._target.configs, metadata_directory=self._target.options.metadata_path
            ),
            disk=self._disk,
            clock=self._clock,
            make_lock=self._make_lock,
        )

    def discard(self) -> None:
        """Delete the staged files that are not part of a log and will not be. May be called at any time."""
        self._disk.release(self._directory)
        if self._stream and has_staged(self._disk, self._directory, self._stream, but=self._write):
            self._discard_stream()
        journal = read_journal(self._disk, self._directory)
        discard_write(self._disk, self._directory, self._write, journal)
        discard_abandoned(self._disk, self._directory, journal, self._clock())

    def _discard_stream(self) -> None:
        """Delete the files that earlier, killed runs of the stream have staged.

        This write's own files stay while the lock is held: they show other writes that the lock is held by a
        write, not by a broker.
        """
        locks = Locks(self._directory, self._make_lock)
        try:
            locks.take()
        except LogDirLockedError:
            return  # such a run may be committing right now: the next batch checks again
        try:
            journal = read_journal(self._disk, self._directory)
            discard_write(self._disk, self._directory, self._stream, journal, but=self._write)
        finally:
            locks.release()

    def _plan(self, journal: Journal, staged: Sequence[Staged]) -> tuple[PartitionWrite, ...]:
        """Decides where each staged segment goes, and sets base offsets and epochs.

        Segments that wait from earlier writes come first.
        """
        queues: dict[TopicPartition, list[StagedSegment]] = {}
        for waiting in journal.waiting:
            path = join_path(self._directory, str(waiting.topic_partition))
            # When the segment began to wait, the folder existed.
            if not self._disk.exists(path) or is_of_another_topic(self._disk, path, waiting.topic_id):
                logger.warning(
                    "%s was deleted, and %d records that waited for it are lost.", path, waiting.records_count
                )
                continue
            queues.setdefault(waiting.topic_partition, []).extend(waiting.segments)
        for one in staged:
            segment = StagedSegment(
                staged=one.staged, base_offset=0, size=one.size, records_count=one.records_count
            )
            queues.setdefault(one.topic_partition, []).append(segment)
        here = {found.directory: found for found in list_partitions(self._disk, self._directory)}
        writes = []
        for key, segments in sorted(queues.items()):
            place = self._place(key, here.get(join_path(self._directory, str(key))))
            offset, placed = place.end_offset, []
            for segment in segments:
                placed.append(replace(segment, base_offset=offset))
                offset = patch_segment(
                    self._disk,
                    staged_path(self._directory, segment.staged, FileKind.LOG),
                    segment.size,
                    base_offset=offset,
                    leader_epoch=place.leader_epoch,
                    sync=self._target.options.sync,
                )
                self._complete_indexes(key, placed[-1])
            writes.append(
                PartitionWrite(
                    topic_partition=key,
                    topic_id=place.topic_id,
                    is_new=place.is_new,
                    previous=place.previous,
                    segments=tuple(placed),
                )
            )
        self._disk.release(self._directory)
        return tuple(writes)

    def _place(self, key: TopicPartition, found: FoundPartition | None) -> _Place:
        path = join_path(self._directory, str(key))
        topic = self._target.topics.get(key.topic)
        topic_id = self._target.options.topic_ids.get(key.topic) if topic is None else topic.topic_id
        if found is None:
            if self._target.has_metadata:  # so the partition existed when the write began
                raise UsageError(
                    f"{path} is gone: its topic was deleted, or the partition moved, while rows for it were "
                    "staged. Nothing was written. Write again once the partition is back."
                )
            return _Place(end_offset=0, leader_epoch=0, previous=None, is_new=True, topic_id=topic_id)
        found_id = PartitionMetadataFile(self._disk, join_path(path, PARTITION_METADATA)).read()
        if topic_id is not None and found_id is not None and found_id != topic_id:
            raise UsageError(
                f"{path} belongs to the topic with the id {topic_id_to_text(found_id)}, but this write is "
                f"for {topic_id_to_text(topic_id)}: the topic was deleted and created again. Write again, if "
                "the new topic is meant."
            )
        view = open_view(self._disk, self._clock, found, self._config(key))
        try:
            previous = None
            if len(view.segments):
                active = view.segments.active
                previous = (active.base_offset, active.size)
                if view.end().why is not EndReason.END_OF_FILE:
                    raise NeedsRecoveryError(
                        path, f"{active.base_offset:020d}.log has bytes after its last whole batch"
                    )
            epoch = LeaderEpochFileCache(self._disk, join_path(path, LEADER_EPOCH_CHECKPOINT)).latest_epoch
            return _Place(
                end_offset=view.log_end_offset,
                leader_epoch=epoch or 0,  # None: no leader has written to this log yet; the first epoch is 0
                previous=previous,
                is_new=False,
                topic_id=topic_id or found_id,
            )
        finally:
            view.close()

    def _complete_indexes(self, key: TopicPartition, segment: StagedSegment) -> None:
        """Rebuild the indexes of a segment that lost them while it waited."""
        paths = {
            kind: staged_path(self._directory, segment.staged, kind)
            for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
        }
        if all(self._disk.exists(path) for path in paths.values()):
            return
        log = staged_path(self._directory, segment.staged, FileKind.LOG)
        interval = self._config(key).index_interval_bytes
        scan = scan_segment(self._disk, log, segment.base_offset, index_interval_bytes=interval)
        self._disk.replace(paths[FileKind.OFFSET_INDEX], scan.offset_index)
        self._disk.replace(paths[FileKind.TIME_INDEX], scan.time_index)

    def _do(self, session: Session, journal: Journal, pending: PendingWrite) -> dict[TopicPartition, int]:
        """Do everything that changes the logs; returns where they end."""
        self._decide(session, journal, pending)
        try:
            after = finish_pending_write(self._disk, self._directory)
            assert not after.waiting, "the lock is held, so no segment has to wait"
            settled = [self._settle(write) for write in pending.partitions]
            if self._target.options.sync:
                self._write_checkpoints(settled)
                session.put_back(session.directories[0])
        except StratalogError as error:
            raise _unfinished(self._directory, error) from error
        return {marks.topic_partition: marks.recovery_point for marks in settled}

    def _decide(self, session: Session, journal: Journal, pending: PendingWrite) -> None:
        """Remove the clean-shutdown file and write the journal; if the disk refuses, the file is put back."""
        (directory,) = session.directories
        try:
            directory.before_change()
            if self._target.options.sync:
                self._disk.sync_directory(self._directory)
            topics = {write.topic_partition.topic for write in pending.partitions}
            note_written_topics(self._disk, self._directory, self._target.counts_to_note(topics))
            write_journal(self._disk, self._directory, replace(journal, pending=pending, waiting=()))
        except DiskError as error:
            # The journal may exist without being synced: then the next session finds it and finishes the
            # write.
            if has_pending_write(self._disk, self._directory):
                raise _unfinished(self._directory, error) from error
            if directory.was_clean:
                with suppress(DiskError):
                    session.put_back(directory)
            raise

    def _warn_of_unknown(self, writes: Sequence[PartitionWrite]) -> str | None:
        warning = self._target.warning_of([write.topic_partition for write in writes if write.is_new])
        if warning is not None:
            logger.warning("%s", warning)
        return warning

    def _settle(self, write: PartitionWrite) -> CheckpointMarks:
        """Load a log with its new segments and close it, as any clean stop does; returns its marks."""
        key = write.topic_partition
        path = join_path(self._directory, str(key))
        first, last = write.segments[0], write.segments[-1]
        end_offset = last.base_offset + last.records_count
        self._carry_snapshot(path, first.base_offset, end_offset)
        later = _Later()
        log = load(
            disk=self._disk,
            clock=self._clock,
            scheduler=later,
            directory=path,
            topic_partition=key,
            config=self._config(key),
            log_start_offset=DirectoryCheckpoints(self._disk, self._directory)
            .log_start_offsets.read()
            .get(key, 0),
            high_watermark_follows_end=True,
        )
        assert log.log_end_offset == end_offset, f"{key} ends at {log.log_end_offset}, not at {end_offset}"
        if log.epochs.latest_epoch is None:
            log.assign_epoch_start_offset(0, first.base_offset)
        log.close()
        later.run()
        return CheckpointMarks.of(log)

    def _carry_snapshot(self, path: str, old_end: int, new_end: int) -> None:
        """Copy the producer snapshot to the log's new end: no producer wrote the records in between.

        Without it, loading the log would read all the new records.
        """
        old, new = (
            join_path(path, segment_file_name(offset, FileKind.PRODUCER_SNAPSHOT))
            for offset in (old_end, new_end)
        )
        status = self._disk.status(old)
        if status is not None:
            self._disk.replace(new, self._disk.read_at(old, status.size, 0))
        elif old_end == 0:
            self._disk.replace(new, build_snapshot([]))

    def _write_checkpoints(self, logs: Iterable[CheckpointMarks]) -> None:
        topics = self._target.topics

        def known(marks: CheckpointMarks) -> CheckpointMarks:
            """With several replicas, the high watermark is unknown: nobody knows what the others have."""
            key = marks.topic_partition
            topic = topics.get(key.topic)
            is_alone = topic is None or key.partition not in topic.replicated
            return marks if is_alone else replace(marks, high_watermark=None)

        DirectoryCheckpoints(self._disk, self._directory).write_closed([known(marks) for marks in logs])

    def _config(self, key: TopicPartition) -> LogConfig:
        return self._target.configs.of(key.topic)


def _unfinished(directory: str, error: StratalogError) -> DiskError:
    return DiskError(
        directory,
        "the write is committed and its files are safe, but moving them into the logs failed: `stratalog "
        f"recover` or the next write finishes it. Do not write the same records again. The reason: {error}",
    )


class _Later:
    """Keeps the tasks that a log schedules without delay, for `run`: there is no background thread here."""

    def __init__(self) -> None:
        self._tasks: list[ScheduledTask] = []

    def schedule(self, name: str, task: ScheduledTask, delay_ms: int = 0) -> None:  # noqa: ARG002 (by protocol)
        if not delay_ms:
            self._tasks.append(task)

    def run(self) -> None:
        for task in self._tasks:
            task()
