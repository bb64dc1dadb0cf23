"""Compacts one log in parts, on other machines if wanted: a cluster does this instead of `clean_log`.

Theory of operation. The log has groups of segments, as in `clean.py`; each group becomes one segment.

1. A task for each segment reads its keys, and emits a hash and an offset for each record. The tasks of the
   dirty part also say which of these records replace older ones with the same key. Each task returns which
   transactions its segment begins and ends, so that later groups know which markers they need.
2. The runner finds the records whose key has a newer version, by an aggregation over all keys.
3. A task for each group rewrites it, with the cleaner's own code, into a folder of its own inside the log's
   directory. A task that is killed or run twice leaves a folder that nobody uses.
4. Another task reads each new file back and checks it.
5. This process, the driver, moves the files into the log's directory and swaps them for the old ones, group
   by group.

Until the last step nothing of the log is changed, so an error of a task is an error of this log alone. There
is no bound on the number of keys, so one round cleans all of the dirty part. `task_folders.py` removes the
folders of a run that was killed.
"""

from __future__ import annotations

import errno
import hashlib
import secrets
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stratalog.clock import Clock, system_clock
from stratalog.config import LogConfig
from stratalog.engine.engine import Engine, results_in_order
from stratalog.errors import DiskError, FileOwnerError, UsageError, WorkerError
from stratalog.files.disk import Disk, changing
from stratalog.files.names import FileKind, FileState
from stratalog.files.ownership import who_cannot_give
from stratalog.files.paths import join_path, last_name, parent_path
from stratalog.files.reading import DiskReader
from stratalog.files.stamps import FileStamp
from stratalog.limits import INT64_MAX
from stratalog.log.cleaning.clean import Cleaning, DirtyLog, Replace
from stratalog.log.cleaning.erase import FileOfBatches
from stratalog.log.cleaning.erase_proof import sha256_of
from stratalog.log.cleaning.filter import LastRecord
from stratalog.log.cleaning.groups import groups_of
from stratalog.log.cleaning.newest import ReplacedRecords
from stratalog.log.cleaning.results import CleanedSegment, CleanerStats, CleanResult
from stratalog.log.cleaning.runs import RunReader
from stratalog.log.cleaning.transactions import (
    NO_DATA,
    CleanedTransactions,
    OpenData,
    SegmentData,
)
from stratalog.log.segments import SegmentReaders
from stratalog.log.task_folders import FOLDER_PREFIX, remove_task_folders
from stratalog.records.kernels.decode import RecordTable
from stratalog.records.kernels.hash import hash_keys
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.offset_map import Hashes
from stratalog.records.kernels.walk import CONTROL
from stratalog.segment.scan import ScanStop, scan_segment
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reader import FILES, SegmentReader
from stratalog.segment.txn_index import AbortedTxn

_THREADS = 1  # threads that decode for a task: a machine runs as many tasks as it has cores


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningPlan:
    """All that a task must know about the log. `stamps` describe its .log files as the driver sees them.

    `aborted` are all its aborted transactions, as the driver reads them: a machine with the same .log files
    but without their .txnindex would mistake aborted records for the newest ones. `groups` has, for each new
    segment, the indexes of the old segments in it. `hash_key` is a secret of this run, so that nobody can
    choose keys whose hashes collide. Tasks write below `folder`.
    """

    directory: str
    config: LogConfig
    bases: tuple[int, ...]
    stamps: tuple[FileStamp, ...]
    aborted: tuple[AbortedTxn, ...]
    first_dirty_offset: int
    first_uncleanable_offset: int
    last_records: Mapping[int, LastRecord]
    groups: tuple[range, ...]
    now_ms: int
    hash_key: tuple[int, int]
    folder: str

    @property
    def segments_count(self) -> int:
        """How many segments are cleaned: the first ones of the log."""
        return self.groups[-1].stop

    def group_of(self, number: int) -> int:
        """The group of a segment."""
        return next(index for index, group in enumerate(self.groups) if number in group)

    def open(self, disk: DiskReader, cleaned_directory: str | None = None) -> DirtyLog:
        """The log, read through this disk."""
        return DirtyLog(
            disk=disk,
            segments=SegmentReaders(
                SegmentReader(disk, self.directory, base, self.config, size=stamp.size)
                for base, stamp in zip(self.bases, self.stamps, strict=True)
            ),
            config=self.config,
            first_dirty_offset=self.first_dirty_offset,
            first_uncleanable_offset=self.first_uncleanable_offset,
            last_records=self.last_records,
            cleaned_directory=cleaned_directory,
            aborted=self.aborted,
        )


class RecordKeys(NamedTuple):
    """Records with a key: their hashes and offsets, and which of them replace older records."""

    hashes: Hashes
    offsets: NDArray[np.int64]
    is_version: NDArray[np.bool_]


class RewrittenGroup(NamedTuple):
    """The new segment of a group: its files, the .log first, and the SHA-256 of what was written to each."""

    number: int
    segment: CleanedSegment
    stats: CleanerStats
    files: tuple[FileStamp, ...]
    sha256: tuple[str, ...]


class PartsRunner(Protocol):
    """Runs the parts of one cleaning. An error of a task is raised."""

    def read_keys(self, plan: CleaningPlan) -> Sequence[SegmentData]:
        """Run `read_keys` over the segments; the result has a value for each, in order."""
        ...

    def rewrite(self, plan: CleaningPlan, before: Sequence[OpenData]) -> Sequence[RewrittenGroup]:
        """Find the replaced records, and run `rewrite_group` over the groups; in order."""
        ...

    def prove(self, plan: CleaningPlan, groups: Sequence[RewrittenGroup]) -> None:
        """Run `prove_group` over the new segments."""
        ...


def clean_in_parts(
    log: DirtyLog,
    now_ms: int,
    replace_segments: Replace,
    runner: PartsRunner,
    *,
    on_read: Callable[[int], object] = lambda _: None,
) -> CleanResult:
    """Compact the log once, to the end of its dirty part; writes the same files as `clean_log`.

    Nothing is replaced until all new files are checked. `on_read` is called with the bytes read. UsageError
    if there is not enough room for the new segments. WorkerError if the disk of a task fails: other logs can
    still be compacted. DiskError if the disk of this process fails.
    """
    if log.first_dirty_offset >= log.first_uncleanable_offset:
        return CleanResult(end_offset=log.first_dirty_offset, groups=())
    disk = changing(log.disk)
    segments = log.segments.range(0, log.first_uncleanable_offset)
    groups = groups_of(segments, log.config, log.first_uncleanable_offset)
    plan = _plan(log, groups, now_ms)
    remove_task_folders(disk, plan.directory)
    _check_room(disk, plan.directory, sum(segment.size for segment in segments))
    disk.make_directory(plan.folder)
    try:
        done = _rewritten(log, plan, runner, on_read)
        for rewritten, group in zip(done, groups, strict=True):
            replace_segments(_adopted(disk, plan, rewritten, log.clock), group)
    finally:
        with suppress(DiskError):  # the next run removes them
            remove_task_folders(disk, plan.directory)
    return CleanResult(
        end_offset=log.first_uncleanable_offset,
        groups=tuple(tuple(segment.base_offset for segment in group) for group in groups),
        cleaned=tuple(rewritten.segment for rewritten in done),
        stats=_sum([rewritten.stats for rewritten in done]),
    )


def _rewritten(
    log: DirtyLog, plan: CleaningPlan, runner: PartsRunner, on_read: Callable[[int], object]
) -> Sequence[RewrittenGroup]:
    """The new segments, checked. An error leaves the log as it is."""
    try:
        data = runner.read_keys(plan)
        on_read(sum(segment.size for segment in log.segments.range(*_dirty(log))))
        done = runner.rewrite(plan, open_before(plan, data))
        on_read(sum(segment.size for segment in log.segments.range(0, log.first_uncleanable_offset)))
        runner.prove(plan, done)
    except DiskError as error:
        raise WorkerError(f"{error} A task of the cluster reported this; the log is unchanged.") from error
    return done


def foresee_parts(disk: DiskReader, segments: Sequence[SegmentReader], engine: Engine) -> None:
    """Raise what `clean_in_parts` would raise before it reads a record; changes nothing.

    UsageError if there is not enough room. A task for each segment checks whether its worker sees this file
    and may write beside it.
    """
    _check_room(disk, segments[0].directory, sum(segment.size for segment in segments))
    stamps = [FileStamp.of(disk, segment.log_path) for segment in segments]
    results_in_order(engine.run(check_access, stamps, paths=[segment.directory for segment in segments]))


def check_access(disk: DiskReader, stamp: FileStamp) -> None:
    """OtherFileError if this machine sees another file.

    DiskError if this user may not create files beside it, FileOwnerError if it cannot give them to the owner
    of the directory.
    """
    stamp.check(disk)
    directory = parent_path(stamp.path)
    if not disk.may_create_in(directory):
        raise DiskError(directory, "the user of this worker may not create files here.", errno.EACCES)
    status = disk.status(directory)
    user = None if status is None else who_cannot_give(status.user, status.mode)
    if status is not None and user is not None:
        raise FileOwnerError(directory, status.user, user)


def read_keys(disk: DiskReader, plan: CleaningPlan, number: int) -> Generator[RecordKeys, None, SegmentData]:
    """The keys of one segment, run by run; returns which transactions the segment begins and ends.

    OtherFileError if this machine sees another file, CorruptRecordError if a batch is damaged.
    """
    plan.stamps[number].check(disk)
    log = plan.open(disk)
    base, end = plan.bases[number], plan.bases[number + 1]
    segment = log.segments.get(base)
    assert segment is not None
    transactions = CleanedTransactions()
    transactions.add_aborted(log.aborted_between(base, end))
    first, second = np.uint64(plan.hash_key[0]), np.uint64(plan.hash_key[1])

    def hash_rows(data: Bytes, rows: RecordTable, hashes: Hashes) -> None:
        hash_keys(data, rows, first, second, hashes)

    with RunReader(hash_rows, threads=_THREADS).read(segment) as runs:
        for run in runs:
            batches, rows = run.batches, run.rows
            is_aborted = np.zeros(len(batches), np.bool_)
            transactions.read_batches(run.data, batches, rows, is_aborted)
            is_control = (batches["magic"] == 2) & (batches["attributes"] & CONTROL != 0)
            chosen = np.flatnonzero((rows["key_size"] >= 0) & ~is_control[rows["batch"]])
            offsets = rows["offset"][chosen]
            is_version = (offsets >= plan.first_dirty_offset) & ~is_aborted[rows["batch"][chosen]]
            yield RecordKeys(run.hashes[chosen], offsets, is_version)
    plan.stamps[number].check(disk)
    return transactions.data


def open_before(plan: CleaningPlan, data: Sequence[SegmentData]) -> list[OpenData]:
    """For each group, the producers that have records but no marker yet before the group."""
    found, now = [], NO_DATA
    for group in plan.groups:
        found.append(now)
        for number in group:
            now = data[number].after(now)
    return found


def rewrite_group(
    disk: Disk, plan: CleaningPlan, number: int, before: OpenData, replaced: NDArray[np.int64]
) -> RewrittenGroup:
    """Rewrite a group without the records at the `replaced` offsets, into a new folder.

    OtherFileError if this machine sees other files.
    """
    folder = join_path(plan.folder, f"{number}-{uuid.uuid4().hex}")
    disk.make_directory(folder)
    log = plan.open(disk, folder)
    old = [log.segments.get(plan.bases[index]) for index in plan.groups[number]]
    group = [segment for segment in old if segment is not None]
    stats, digest = CleanerStats(), hashlib.sha256()
    cleaning = Cleaning(
        log,
        ReplacedRecords(replaced, plan.first_uncleanable_offset - 1),
        plan.now_ms,
        stats,
        before=before,
        observe=lambda _, kept: digest.update(kept.data.data),
        threads=_THREADS,
    )
    new: list[LogSegment] = []
    for index in plan.groups[number]:
        plan.stamps[index].check(disk)
    facts = cleaning.clean_group(group, lambda cleaned, _: new.append(cleaned))
    for index in plan.groups[number]:
        plan.stamps[index].check(disk)
    reader = new[0].reader
    written = {FileKind.LOG: digest.hexdigest()} | {
        kind: hashlib.sha256(index.to_bytes()).hexdigest()
        for kind, index in (
            (FileKind.OFFSET_INDEX, reader.offset_index),
            (FileKind.TIME_INDEX, reader.time_index),
            (FileKind.TXN_INDEX, reader.txn_index),
        )
    }
    paths = {kind: reader.path_of(kind) for kind in FILES}
    new[0].close_handlers()
    kinds = [kind for kind in FILES if disk.exists(paths[kind])]
    files = tuple(FileStamp.of(disk, paths[kind]) for kind in kinds)
    return RewrittenGroup(number, facts, stats, files, tuple(written[kind] for kind in kinds))


def prove_group(disk: DiskReader, done: RewrittenGroup) -> None:
    """DiskError unless the files are as they were written, and every byte of the log is in a good batch.

    OtherFileError if this machine sees other files.
    """
    for stamp in done.files:
        stamp.check(disk)
    for stamp, sha256 in zip(done.files, done.sha256, strict=True):
        if sha256_of(FileOfBatches(disk, stamp.path, stamp.size)) != sha256:
            raise _other_bytes(stamp.path)
    log = done.files[0]
    scan = scan_segment(disk, log.path, done.segment.base_offset)
    if scan.stop is not ScanStop.END or scan.valid_size != done.segment.size:
        raise _other_bytes(log.path)


def _other_bytes(path: str) -> DiskError:
    return DiskError(
        path,
        "a compaction wrote this file, and reads back other bytes than it wrote. Check the disk and memory "
        "of the machine that wrote it, then run again.",
        errno.EIO,
    )


def _check_room(disk: DiskReader, directory: str, size: int) -> None:
    free = disk.free_size(directory)
    if free < size:
        raise UsageError(
            f"{directory}: a compaction on a cluster writes all new segments before it replaces old ones. "
            f"They may need {size} bytes, and {free} are free here. This log was not compacted. Free some "
            "space, and run again."
        )


def _dirty(log: DirtyLog) -> tuple[int, int]:
    return log.first_dirty_offset, log.first_uncleanable_offset


def _plan(log: DirtyLog, groups: Sequence[Sequence[SegmentReader]], now_ms: int) -> CleaningPlan:
    every = tuple(log.segments)
    ends = np.cumsum([len(group) for group in groups]).tolist()
    directory = every[0].directory
    return CleaningPlan(
        directory=directory,
        config=log.config,
        bases=tuple(segment.base_offset for segment in every),
        stamps=tuple(
            FileStamp.of(log.disk, segment.log_path)._replace(size=segment.size) for segment in every
        ),
        aborted=tuple(log.aborted_between(every[0].base_offset, INT64_MAX)),
        first_dirty_offset=log.first_dirty_offset,
        first_uncleanable_offset=log.first_uncleanable_offset,
        last_records=log.last_records,
        groups=tuple(range(end - len(group), end) for group, end in zip(groups, ends, strict=True)),
        now_ms=now_ms,
        hash_key=(secrets.randbits(64), secrets.randbits(64)),
        folder=join_path(directory, f"{FOLDER_PREFIX}{uuid.uuid4().hex}"),
    )


def _adopted(disk: Disk, plan: CleaningPlan, done: RewrittenGroup, clock: Clock = system_clock) -> LogSegment:
    """The new segment, moved into the log's directory as `.cleaned`; the next load throws it away if it is
    not swapped in."""
    base, suffix = done.segment.base_offset, FileState.CLEANED.value
    LogSegment.open(disk, plan.directory, base, plan.config, clock, suffix=suffix, size=0).delete()
    for stamp in done.files:
        disk.rename(stamp.path, join_path(plan.directory, last_name(stamp.path)))
    return LogSegment.open(disk, plan.directory, base, plan.config, clock, suffix=suffix)


def _sum(found: Sequence[CleanerStats]) -> CleanerStats:
    return CleanerStats(
        bytes_read=sum(stats.bytes_read for stats in found),
        records_read=sum(stats.records_read for stats in found),
        records_without_key=sum(stats.records_without_key for stats in found),
        bytes_written=sum(stats.bytes_written for stats in found),
        records_written=sum(stats.records_written for stats in found),
    )
