"""Rewrites files of a partition without certain records: counts, writes a new file, checks it, swaps it in.

The new files of a segment are complete and on the device as `.cleaned`, and were read back, before the old
files are touched. In a log, `replace.py` swaps them. The old files are then deleted at once, because erased
records must be gone. No segments are merged, so the producer snapshots at their base offsets stay valid.

Who may erase, and when, is decided in `operations/erase/erasure.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.errors import CorruptRecordError, DiskError, StratalogError
from stratalog.files.disk import Disk
from stratalog.files.names import FileState
from stratalog.files.reading import DiskReader
from stratalog.log.cleaning.erase_filter import erase_runs
from stratalog.log.cleaning.erase_proof import Removed, prove, sha256_of
from stratalog.log.cleaning.erase_selection import Found, Matcher
from stratalog.log.cleaning.parts import BatchFile
from stratalog.log.cleaning.replace import replace_segments
from stratalog.log.scheduler import ScheduledTask
from stratalog.log.segments import LogSegments
from stratalog.records.kernels.memory import Bytes
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reader import SegmentReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """The result for one file, with its SHA-256 before and after; `after` is None if the file is gone."""

    removed: Removed
    size_before: int
    size_after: int
    before: str
    after: str | None


class What(Enum):
    """The kind of a file from which records are erased."""

    SEGMENT = "segment"
    STRAY = "stray segment"  # in a directory that a broker has set aside
    DELETED = "deleted file"  # renamed to be deleted, in a -delete directory, or left by a swap
    QUARANTINE = "quarantine"


BeforeSwap = Callable[[Rewritten], object]
"""Called with the checked result for a file, before anything of the old file is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToErase:
    """A file that holds, or may hold, selected records. `erase` erases them.

    `is_gone`: the whole file is deleted.
    """

    file: str
    what: What
    found: Found
    size: int
    is_gone: bool
    erase: Callable[[BeforeSwap], Rewritten]


class FileOfBatches:
    """A file of batches with any name: one that waits for its deletion, or does not belong to a log."""

    def __init__(self, disk: DiskReader, path: str, size: int | None = None) -> None:
        self.log_path = path
        self.size = disk.size(path) if size is None else size
        self._disk = disk

    def read_into(self, buffer: Bytes, position: int) -> int:
        return self._disk.read_into(self.log_path, buffer[: max(0, self.size - position)], position)


class CountedFile:
    """A file wrapper that reports the bytes read from it."""

    def __init__(self, file: BatchFile, on_read: Callable[[int], object]) -> None:
        self.log_path, self.size = file.log_path, file.size
        self._file, self._on_read = file, on_read

    def read_into(self, buffer: Bytes, position: int) -> int:
        size = self._file.read_into(buffer, position)
        self._on_read(size)
        return size


def find_records(file: BatchFile, matcher: Matcher) -> Found:
    """Count the selected records of a file, up to the first batch that cannot be read.

    A file that was searched already (`Matcher.known`) is not read again.
    """
    known = matcher.known.get(file.log_path)
    if isinstance(known, StratalogError):
        raise known
    if known is not None:
        return known
    records_count = markers_count = 0
    last_offset = -1
    try:
        with matcher.reader.read(file) as runs:
            for run in runs:
                matcher.on_read(run.size)
                gone, markers = matcher.match(run)
                records_count += int(gone.sum())
                markers_count += markers
                last_offset = int(run.batches["last_offset"][-1])
    except CorruptRecordError as problem:
        return Found(records_count, markers_count, problem, last_offset)
    return Found(records_count, markers_count, None, last_offset)


def gone_file(file: BatchFile, found: Found) -> Rewritten:
    """The result for a file that is deleted as a whole."""
    return Rewritten(
        removed=Removed(records_count=found.records_count),
        size_before=file.size,
        size_after=0,
        before=sha256_of(file),
        after=None,
    )


def proven(before: BatchFile, after: BatchFile, matcher: Matcher, changed: NDArray[np.int64]) -> Rewritten:
    """The result for a rewritten file that was proven correct; else EraseProofError."""
    old, new = CountedFile(before, matcher.on_read), CountedFile(after, matcher.on_read)
    return Rewritten(
        removed=prove(old, new, matcher.selection, changed),
        size_before=old.size,
        size_after=new.size,
        before=sha256_of(old),
        after=sha256_of(new),
    )


def erase_from_segment(
    segment: SegmentReader,
    matcher: Matcher,
    *,
    disk: Disk,
    config: LogConfig,
    clock: Clock,
    before_swap: BeforeSwap,
    swap: Callable[[LogSegment], object],
) -> Rewritten:
    """Write the segment without the selected records, check it, call `before_swap`, then `swap`."""
    cleaned = _create(segment, disk, config, clock)
    is_proven = False
    try:
        changed = _write(segment, cleaned, matcher)
        rewritten = proven(segment, FileOfBatches(disk, cleaned.log_path), matcher, changed)
        is_proven = True
    finally:
        if not is_proven:
            with suppress(DiskError):  # the next run deletes them
                cleaned.delete()
    before_swap(rewritten)
    swap(cleaned)
    return rewritten


def swap_in_log(
    disk: Disk, segments: LogSegments[LogSegment], segment: SegmentReader, cleaned: LogSegment
) -> None:
    """Replace a segment of a log, so that any start after a crash finds the old one or the new one."""
    replace_segments(
        disk,
        segments,
        [cleaned],
        [segment],
        scheduler=_AtOnce(),
        producers=None,
        delete_delay_ms=0,
        reason="records of them were erased",
    )


def swap_in_stray(disk: Disk, segment: SegmentReader, cleaned: LogSegment) -> None:
    """The same in a stray directory.

    Perhaps nothing ever finishes an interrupted swap there, so the indexes are deleted first. A log without
    an index gets a new one when it is opened; with an index that does not match, it would be misread.
    """
    directory = segment.directory
    for index in (segment.offset_index, segment.time_index, segment.txn_index):
        disk.delete(index.path)
        index.forget()
    disk.sync_directory(directory)
    cleaned.change_suffixes(FileState.CLEANED.value, FileState.LIVE.value)
    disk.sync_directory(directory)


def _create(segment: SegmentReader, disk: Disk, config: LogConfig, clock: Clock) -> LogSegment:
    directory, base_offset, suffix = segment.directory, segment.base_offset, FileState.CLEANED.value
    # Deletes the files that a failed run has left.
    LogSegment.open(disk, directory, base_offset, config, clock, suffix=suffix, size=0).delete()
    return LogSegment.create(disk, directory, base_offset, config, clock, suffix=suffix)


def _write(segment: SegmentReader, cleaned: LogSegment, matcher: Matcher) -> NDArray[np.int64]:
    """Write the records that stay and sync them; returns which batches have changed."""
    changed = []
    with erase_runs(segment, matcher) as runs:
        for run in runs:
            cleaned.append(run.data, run.batches, run.max_offset)
            changed.append(run.changed)
    # The transaction index stays valid: markers and the batches of their transactions keep their offsets.
    for aborted in segment.txn_index.all_aborted():
        cleaned.append_aborted(aborted)
    cleaned.on_become_inactive()
    cleaned.flush()
    cleaned.set_modified(segment.modified_ms)  # records without a timestamp are as old as their file
    return np.concatenate(changed)


class _AtOnce:
    """A scheduler that runs every task at once."""

    def schedule(self, name: str, task: ScheduledTask, delay_ms: int = 0) -> None:  # noqa: ARG002
        task()
