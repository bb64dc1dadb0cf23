"""Opens a log that was closed cleanly: finds its segments, its marks and the state of its producers.

Nothing is scanned. The listing gives the segments and their sizes. The last batches of the newest segment
show where the log ends. The snapshot at that offset has the state of the producers. (A truncation inside a
batch leaves no snapshot there; then the batches after the previous snapshot are replayed, as Kafka does.) If
a file does not fit (a leftover of an interrupted cleaning, or an index without its log), a NeedsRecoveryError
names the file, and nothing is changed. Kafka: LogLoader
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import compress
from typing import NamedTuple

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.errors import NeedsRecoveryError
from stratalog.files.disk import Disk
from stratalog.files.names import (
    LAST_DIGITS,
    LEADER_EPOCH_CHECKPOINT,
    FileKind,
    FileState,
    TopicPartition,
    parse_kraft_snapshot_file,
    parse_segment_file,
)
from stratalog.files.paths import absolute_path, join_path, parent_path
from stratalog.files.reading import DiskReader
from stratalog.log.epochs import LeaderEpochFileCache, read_epochs
from stratalog.log.folder import LogFolder
from stratalog.log.guard import LogGuard
from stratalog.log.kept_marks import KeptMarks
from stratalog.log.log import Log
from stratalog.log.log_end import clean_end
from stratalog.log.marks import LogMarks
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.parts import LogParts
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.producers.rebuild import rebuild_producer_state
from stratalog.log.roll import random_jitter_ms
from stratalog.log.scheduler import Scheduler
from stratalog.log.segments import LogSegments, SegmentReaders
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reader import MAX_SIZE, SegmentReader

_DELETED = FileState.DELETED.value
_LOG = FileKind.LOG.value
_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
_BESIDE = (*_INDEXES, FileKind.PRODUCER_SNAPSHOT)  # the kinds of files that a .log may have beside it


class Listing(NamedTuple):
    """The files of a partition's directory: sizes of segments, which indexes each has, snapshots.

    `others` are all files that are not live files of a segment.
    """

    sizes: dict[int, int]
    indexes: dict[FileKind, set[int]]
    snapshots: list[int]
    others: list[str]


def load(
    *,
    disk: Disk,
    clock: Clock,
    scheduler: Scheduler,
    directory: str | os.PathLike[str],
    topic_partition: TopicPartition,
    config: LogConfig,
    log_start_offset: int = 0,
    high_watermark_follows_end: bool = False,
    before_change: Callable[[], object] | None = None,
    keeps_deleted: bool = False,
    kept_marks: KeptMarks | None = None,
    kind: type[Log] = Log,
) -> Log:
    """The log in this directory, which was closed cleanly or is empty.

    `before_change` is called after all checks, before the first change of a file. Files that wait for their
    deletion are deleted, because their readers ended with their process; a caller may keep them with
    `keeps_deleted`. `kept_marks` are the log's entries in its owner's checkpoints, which the log changes
    before its files. `kind` is the class of the log: a manager has its own.
    """
    name = os.fspath(directory)
    disk.release(name)
    listing = list_partition(disk.list_sizes(name, _LOG), name)
    segments = _segments_of(disk, clock, name, config, listing)
    end_offset = clean_end(segments.active.reader) if len(segments) else log_start_offset
    epochs = _epochs_of(disk, scheduler, name)
    producers = _producers_of(disk, clock, name, config, listing.snapshots)
    # All checks have passed. From here on files are changed.
    if before_change is not None:
        before_change()
    if not keeps_deleted:
        _delete_leftovers(disk, name, listing.others)
    if LEADER_EPOCH_CHECKPOINT not in listing.others:
        disk.create(epochs.path)  # as in Kafka: created at once, empty until a leader is known
    folder = LogFolder(disk, name, config, producers=producers, scheduler=scheduler, clock=clock)
    if end_offset < log_start_offset:
        # No record from the start on is left: a truncation removed the batch that contains the start.
        folder.delete(
            tuple(segments), f"the log ends at {end_offset}, before its start at {log_start_offset}"
        )
        _forget_all(segments, epochs, producers, log_start_offset)
        disk.sync_directory(name)  # only the new segment's name shows where the log starts
    if not len(segments):
        _sync_parent(disk, name)
        size = config.initial_file_size
        segments.add(LogSegment.create(disk, name, log_start_offset, config, clock, size=size))
        end_offset = log_start_offset
    active = segments.active
    end = OffsetMetadata(end_offset, active.base_offset, active.size)
    epochs.truncate_from_end(end.offset)
    epochs.truncate_from_start(log_start_offset)
    log_start_offset = max(log_start_offset, segments.first.base_offset)
    _load_producers(producers, segments, log_start_offset, end_offset, clock())
    active.resize_indexes(config.segment_index_bytes)
    folder.first_named = segments.first.base_offset
    parts = LogParts(
        topic_partition=topic_partition,
        guard=LogGuard(folder),
        folder=folder,
        marks=LogMarks(segments, producers, log_start_offset, end, follows_end=high_watermark_follows_end),
        segments=segments,
        epochs=epochs,
        producers=producers,
        scheduler=scheduler,
        clock=clock,
    )
    return kind(parts, config=config, recovery_point=end.offset, kept_marks=kept_marks)


def check_loadable(disk: DiskReader, directory: str, config: LogConfig) -> None:
    """Raises what `load` would raise, and changes nothing.

    NeedsRecoveryError, CorruptRecordError for a .log that is too large, or CorruptCheckpointError.
    """
    listing = list_partition(disk.list_sizes(directory, _LOG), directory)
    readers = SegmentReaders(
        SegmentReader(disk, directory, base, config, size=size, has=has)
        for base, size, has in _segments_in(listing)
    )
    if len(readers):
        try:
            clean_end(readers.active)
        finally:
            readers.active.forget()
    read_epochs(disk, join_path(directory, LEADER_EPOCH_CHECKPOINT))


def list_partition(files: Mapping[str, int], directory: str) -> Listing:
    """Sort the files of a directory; NeedsRecoveryError for a file that only recovery can handle."""
    sizes, live, rest = _regular(files)
    others = []
    for name in sorted(rest):
        file = parse_segment_file(name)
        if file is None or file.state is FileState.DELETED:
            others.append(name)
            continue
        if file.state is not FileState.LIVE:
            raise NeedsRecoveryError(
                directory, f"{name} is left over from a cleaning or split that was interrupted"
            )
        live[file.kind].add(file.offset)
        if file.kind is FileKind.LOG:
            sizes[file.offset] = files[name]
    indexes = {kind: live[kind] for kind in _INDEXES}
    _check_indexes(sizes, indexes, directory)
    return Listing(sizes, indexes, sorted(live[FileKind.PRODUCER_SNAPSHOT]), others)


def _regular(files: Mapping[str, int]) -> tuple[dict[int, int], dict[FileKind, set[int]], set[str]]:
    """The segments whose names have twenty digits, with their sizes; their other files; all other names.

    A log may have a hundred thousand files, and nearly all of them belong to such segments. Looking up the
    names that may be beside each .log takes two thirds of the time of parsing all names.
    """
    live: dict[FileKind, set[int]] = {kind: set() for kind in FileKind}
    names = [name for name in files if name[20:] == _LOG]
    digits = [name[:20] for name in names]
    text = "".join(digits)
    if not text.isdecimal() or not text.isascii() or max(digits) > LAST_DIGITS:
        return {}, live, {*files}
    offsets = [*map(int, digits)]
    rest = {*files}.difference(names)
    for kind in _BESIDE:
        suffix = kind.value
        expected = [each + suffix for each in digits]
        live[kind] = {*compress(offsets, map(files.__contains__, expected))}
        rest.difference_update(expected)
    return dict(zip(offsets, map(files.__getitem__, names), strict=True)), live, rest


def _check_indexes(sizes: dict[int, int], indexes: dict[FileKind, set[int]], directory: str) -> None:
    for kind, bases in indexes.items():
        orphans = bases - sizes.keys()
        if orphans:
            raise NeedsRecoveryError(
                directory, f"{min(orphans):020d}{kind.value} is an index without its log"
            )
    # An active segment that nothing was appended to has no index yet.
    indexed = indexes[FileKind.OFFSET_INDEX]
    without = [base for base in sizes.keys() - indexed if sizes[base]]
    if without:
        raise NeedsRecoveryError(directory, f"{min(without):020d}.log has no offset index")


def _segments_of(
    disk: Disk, clock: Clock, directory: str, config: LogConfig, listing: Listing
) -> LogSegments[LogSegment]:
    jitter_ms = random_jitter_ms(config)
    sizes, (indexed, timed, aborted) = listing.sizes, (listing.indexes[kind] for kind in _INDEXES)

    def made(base: int) -> LogSegment:
        has = (base in indexed, base in timed, base in aborted)
        return LogSegment.open(
            disk, directory, base, config, clock, size=sizes[base], has=has, roll_jitter_ms=jitter_ms
        )

    for base, size in sizes.items():
        if size > MAX_SIZE:
            made(base)  # raises: such a log is refused now, not when it is read
    return LogSegments.made_when_used(sizes, made)


def _segments_in(listing: Listing) -> Iterator[tuple[int, int, tuple[bool, bool, bool]]]:
    """Base offset and size of each segment, and whether it has an .index, a .timeindex and a .txnindex."""
    indexed, timed, aborted = (listing.indexes[kind] for kind in _INDEXES)
    for base, size in listing.sizes.items():
        yield base, size, (base in indexed, base in timed, base in aborted)


def _epochs_of(disk: Disk, scheduler: Scheduler, directory: str) -> LeaderEpochFileCache:
    return LeaderEpochFileCache(
        disk,
        join_path(directory, LEADER_EPOCH_CHECKPOINT),
        schedule=lambda task: scheduler.schedule("leader-epoch-cache-flush", task),
    )


def _producers_of(
    disk: Disk, clock: Clock, directory: str, config: LogConfig, snapshots: list[int]
) -> ProducerStateManager:
    return ProducerStateManager(
        disk,
        directory,
        clock=clock,
        producer_id_expiration_ms=config.producer_id_expiration_ms,
        transaction_max_timeout_ms=config.transaction_max_timeout_ms,
        snapshot_offsets=snapshots,
    )


def _forget_all(
    segments: LogSegments[LogSegment],
    epochs: LeaderEpochFileCache,
    producers: ProducerStateManager,
    start: int,
) -> None:
    segments.replace(())
    epochs.clear_and_flush()
    producers.truncate_fully_and_start_at(start)


def _sync_parent(disk: Disk, directory: str) -> None:
    """Sync the parent: the process that created the log's directory may have died before it did so."""
    disk.sync_directory(parent_path(absolute_path(directory)))


def _delete_leftovers(disk: Disk, directory: str, names: Iterable[str]) -> None:
    """Delete .deleted files whose process ended before it could delete them."""
    for name in names:
        if name.endswith(_DELETED) and parse_kraft_snapshot_file(name) is None:
            disk.delete(join_path(directory, name))


def _load_producers(
    producers: ProducerStateManager, segments: LogSegments[LogSegment], start: int, end: int, now_ms: int
) -> None:
    _remove_strays(producers, segments)
    rebuild_producer_state(
        producers,
        segments.readers,
        log_start_offset=start,
        end_offset=end,
        now_ms=now_ms,
        after_clean_shutdown=True,
    )


def _remove_strays(producers: ProducerStateManager, segments: LogSegments[LogSegment]) -> None:
    """Delete snapshots without a segment, except the newest; lists the directory only if there are any."""
    if not {*producers.snapshots.offsets[:-1]} <= {*segments.base_offsets}:
        producers.snapshots.remove_strays(segments.base_offsets)
