"""Opens a log that was closed cleanly: what the directory lists becomes segments, marks and producer state.

Nothing is scanned. A listing says which segments there are and how long; the newest one's last batches say
where the log ends; the snapshot at that offset is the producers' state (where a truncation inside a batch has
left none there, the batches after the previous snapshot are replayed, as Kafka does). A file that does not
fit (left over from an interrupted clean-up, or an index without its log) is a NeedsRecoveryError that names
it, and nothing is changed. Kafka: LogLoader
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.errors import CorruptRecordError, NeedsRecoveryError
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
from stratalog.log.log_end import clean_end, damage_at_end
from stratalog.log.marks import LogMarks
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.parts import LogParts
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.producers.rebuild import rebuild_producer_state
from stratalog.log.roll import random_jitter_ms
from stratalog.log.scheduler import Scheduler
from stratalog.log.segments import LogSegments, SegmentReaders
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reader import SegmentReader

_DELETED = FileState.DELETED.value
_LOG = FileKind.LOG.value
_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)


class Listing(NamedTuple):
    """The files of a partition's directory: sizes of segments, which indexes each has, snapshots.

    `others` are the files that are no live one of a segment.
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
) -> Log:
    """The log in this directory, which was closed cleanly or is empty.

    `before_change` is called when nothing speaks against opening it any more, and no file is changed yet.
    Files that wait for their deletion are deleted, as no reader of theirs has outlived its process, unless
    the caller `keeps_deleted` for some time. `kept_marks` is where the log's owner keeps its marks, which the
    log changes before its files.
    """
    name = os.fspath(directory)
    disk.release(name)
    listing = list_partition(disk.list_sizes(name, _LOG), name)
    segments = LogSegments(_open_segments(disk, clock, name, config, listing))
    end_offset = clean_end(segments.active.reader) if len(segments) else log_start_offset
    epochs = _epochs_of(disk, scheduler, name)
    producers = _producers_of(disk, clock, name, config, listing.snapshots)
    # From here on files are changed: every reason not to open the log has been found by now.
    if before_change is not None:
        before_change()
    if not keeps_deleted:
        _delete_leftovers(disk, name, listing.others)
    if LEADER_EPOCH_CHECKPOINT not in listing.others:
        disk.create(epochs.path)  # empty until a leader is known, but there from the start, as Kafka has it
    folder = LogFolder(disk, name, config, producers=producers, scheduler=scheduler, clock=clock)
    if end_offset < log_start_offset:
        # No record is left above the start: a truncation went into a batch, and the rest was deleted.
        folder.delete(
            tuple(segments), f"the log ends at {end_offset}, before its start at {log_start_offset}"
        )
        _forget_all(segments, epochs, producers, log_start_offset)
        disk.sync_directory(name)  # the new segment's name will say where the log starts, and no other
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
    return Log(parts, config=config, recovery_point=end.offset, kept_marks=kept_marks)


def check_loadable(disk: DiskReader, directory: str, config: LogConfig) -> None:
    """Raises what `load` would raise: NeedsRecoveryError, or CorruptCheckpointError for its epochs.

    Changes nothing.
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


def damage_at_end_of(disk: DiskReader, directory: str) -> tuple[str, CorruptRecordError] | None:
    """The newest .log of a partition, and what stops a broker there after a clean shutdown; None: nothing.

    Where the offset index is missing a broker recovers the segment, and cuts it there.
    """
    names = disk.list_sizes(directory, _LOG)
    bases = [name[:20] for name in names if name[20:] == _LOG and name[:20].isdecimal()]
    if not bases or f"{max(bases)}{FileKind.OFFSET_INDEX.value}" not in names:
        return None
    file = f"{max(bases)}{_LOG}"
    has = (True, None, None)
    active = SegmentReader(disk, directory, int(max(bases)), LogConfig(), size=names[file], has=has)
    try:
        error = damage_at_end(active)
    finally:
        active.forget()
    return None if error is None else (file, error)


def list_partition(files: Mapping[str, int], directory: str) -> Listing:
    """Sort the files of a directory; one that only recovery can deal with is a NeedsRecoveryError."""
    sizes: dict[int, int] = {}
    live: dict[str, list[int]] = {kind.value: [] for kind in FileKind}
    others: list[str] = []
    for name, size in files.items():
        # As `parse_segment_file` does it, without a call and an object for each of a hundred thousand files.
        digits, found = name[:20], live.get(name[20:])
        if found is not None and digits.isdecimal() and digits.isascii() and digits <= LAST_DIGITS:
            found.append(int(digits))
            if found is live[_LOG]:
                sizes[int(digits)] = size
            continue
        file = parse_segment_file(name)
        if file is None or file.state is FileState.DELETED:
            others.append(name)
            continue
        if file.state is not FileState.LIVE:
            raise NeedsRecoveryError(
                directory, f"{name} is left over from a cleaning or split that was interrupted"
            )
        live[file.kind.value].append(file.offset)
        if file.kind is FileKind.LOG:
            sizes[file.offset] = size
    indexes = {kind: set(live[kind.value]) for kind in _INDEXES}
    snapshots = live[FileKind.PRODUCER_SNAPSHOT.value]
    _check_indexes(sizes, indexes, directory)
    return Listing(sizes, indexes, sorted(snapshots), others)


def _check_indexes(sizes: dict[int, int], indexes: dict[FileKind, set[int]], directory: str) -> None:
    for kind, bases in indexes.items():
        orphans = bases - sizes.keys()
        if orphans:
            raise NeedsRecoveryError(
                directory, f"{min(orphans):020d}{kind.value} is an index without its log"
            )
    # An active segment that nothing was appended to has no index yet.
    without = [base for base, size in sizes.items() if size and base not in indexes[FileKind.OFFSET_INDEX]]
    if without:
        raise NeedsRecoveryError(directory, f"{min(without):020d}.log has no offset index")


def _open_segments(
    disk: Disk, clock: Clock, directory: str, config: LogConfig, listing: Listing
) -> Iterable[LogSegment]:
    jitter_ms = random_jitter_ms(config)
    for base_offset, size, has in _segments_in(listing):
        yield LogSegment.open(
            disk, directory, base_offset, config, clock, size=size, has=has, roll_jitter_ms=jitter_ms
        )


def _segments_in(listing: Listing) -> Iterator[tuple[int, int, tuple[bool, bool, bool]]]:
    """Base offset and size of each segment, and whether it has an index, a time index and one of aborts."""
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
    """Sync the parent: the process that made a new log's directory may have died before it did so."""
    disk.sync_directory(parent_path(absolute_path(directory)))


def _delete_leftovers(disk: Disk, directory: str, names: Iterable[str]) -> None:
    """Files that were to be deleted after their delay, when their process ended."""
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
    """Snapshots that belong to no segment, but for the newest; the directory is only listed if there are."""
    if not {*producers.snapshots.offsets[:-1]} <= {*segments.base_offsets}:
        producers.snapshots.remove_strays(segments.base_offsets)
