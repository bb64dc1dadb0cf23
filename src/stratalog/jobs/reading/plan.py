"""Plans a read: options in, tasks out. It reads only listings, indexes and a few batch headers.

The bytes to read are cut into tasks of about equal size. A large segment is cut at a batch that its index
points to; several small segments become one task. So one large partition keeps every core busy, and a
thousand small ones do not become a thousand tasks.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from stratalog.clock import Clock, system_clock
from stratalog.directory.partitions import FoundPartition
from stratalog.directory.views import open_view
from stratalog.errors import CorruptRecordError, DiskError
from stratalog.files.entries import lasting_id
from stratalog.files.reading import DiskReader
from stratalog.files.storage import reader_for
from stratalog.jobs.reading.catalog import find_partitions
from stratalog.jobs.reading.ends import Ends, check_complete, ends_of, range_of
from stratalog.jobs.reading.narrowing import Narrowing, everything, narrowed
from stratalog.jobs.reading.omissions import OnOmission, ignore_omission
from stratalog.jobs.reading.options import ReadOptions
from stratalog.jobs.reading.split import (
    NO_OFFSET,
    Hint,
    ReadTask,
    Split,
    check_whole,
    cut,
    is_wrapper,
    locate,
    split_point,
    topic_id_of,
    touching,
)
from stratalog.log.api.view import LogView
from stratalog.segment.resuming import batch_at
from stratalog.segment.segment_reader import SegmentReader

# A Spark task costs as much as reading a few megabytes; a task of this size takes about half a second.
LARGEST_TASK = 128 << 20
SMALLEST_TASK = 4 << 20
TASKS_PER_CORE = 3
_T = TypeVar("_T")
_ATTEMPTS = 5  # at a directory whose files disappear while they are read


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A split and its segment."""

    split: Split
    segment: SegmentReader


def plan_read(
    options: ReadOptions,
    *,
    disk: DiskReader | None = None,
    clock: Clock = system_clock,
    cores: int | None = None,
    on_omission: OnOmission = ignore_omission,
) -> list[ReadTask]:
    """The tasks of a read with these options, in the order of partitions and offsets.

    `on_omission` is called for records that no task can read, if the options allow leaving them out.
    """
    disk = disk or reader_for(*options.paths)
    partitions = _asked_for(disk, options)
    pieces: list[Piece] = []
    for found in partitions:
        pieces += looking_at(disk, clock, found, partial(_plan_partition, disk, options, on_omission))
    tasks = tasks_of(pieces, options, cores=cores)
    for found in partitions:
        disk.release(found.directory)  # the index and headers were read to find places for cuts
    return tasks


def plan_stepwise(
    options: ReadOptions,
    *,
    task_size: int,
    disk: DiskReader,
    clock: Clock = system_clock,
    on_omission: OnOmission = ignore_omission,
    narrowing: Narrowing = everything,
) -> Iterator[ReadTask]:
    """The same read in tasks of about `task_size` bytes, each planned when it is requested.

    So a reader that stops early does not wait for the plan of the rest. `narrowing` leaves out records that a
    query cannot match.
    """
    pieces: list[Piece] = []
    partitions = _asked_for(disk, options)
    for number, found in enumerate(partitions, start=1):
        plan = partial(_plan_partition, disk, options, on_omission, narrowing=narrowing)
        pieces += looking_at(disk, clock, found, plan)
        # Small partitions share a task.
        if number == len(partitions) or sum(piece.split.size for piece in pieces) >= task_size:
            for splits in _packed(pieces, task_size, None):
                yield _task(splits, options)
            for directory in {piece.split.directory for piece in pieces}:
                disk.release(directory)
            pieces = []


def _asked_for(disk: DiskReader, options: ReadOptions) -> list[FoundPartition]:
    partitions = find_partitions(disk, options)
    for bound in (options.starting, options.ending):
        check_complete(bound, [found.topic_partition for found in partitions])
    return partitions


def _plan_partition(
    disk: DiskReader,
    options: ReadOptions,
    on_omission: OnOmission,
    view: LogView,
    *,
    narrowing: Narrowing = everything,
) -> list[Piece]:
    wanted = narrowing(view.topic_partition)
    if wanted is None:
        return []
    ends = ends_of(
        view,
        read_committed=options.read_committed,
        passes_open=options.table is not None,
        on_corruption=options.on_corruption,
    )
    start, end = narrowed(view, *range_of(view, ends, options, on_omission), wanted)
    return list(plan_range(disk, view, ends, start, end))


def looking_at(disk: DiskReader, clock: Clock, found: FoundPartition, plan: Callable[[LogView], _T]) -> _T:
    """The result of `plan` for a partition; tried again if a broker removes a file meanwhile."""
    for attempt in range(_ATTEMPTS):
        view = open_view(disk, clock, found)
        try:
            return plan(view)
        except DiskError as error:
            if error.errno != errno.ENOENT or attempt == _ATTEMPTS - 1:
                raise
        finally:
            view.close()
    raise AssertionError("the last attempt returns or raises")


def tasks_of(pieces: list[Piece], options: ReadOptions, *, cores: int | None = None) -> list[ReadTask]:
    """The pieces cut and packed into tasks of about equal size."""
    if options.max_records_per_partition:
        pieces = [part for piece in pieces for part in _by_records(piece, options.max_records_per_partition)]
    size = _task_size(sum(piece.split.size for piece in pieces), options, cores or os.cpu_count() or 1)
    return [_task(splits, options) for splits in _packed(pieces, size, options.max_records_per_partition)]


def _task(splits: tuple[Split, ...], options: ReadOptions) -> ReadTask:
    return ReadTask(
        splits=splits,
        include_control=options.include_control,
        on_corruption=options.on_corruption,
        fail_on_data_loss=options.fail_on_data_loss,
    )


def plan_range(disk: DiskReader, view: LogView, ends: Ends, start: int, end: int) -> Iterator[Piece]:
    """The pieces of [start, end) of one log, one for each segment with some of these offsets."""
    topic, partition = view.topic_partition
    topic_id = topic_id_of(disk, view.directory)
    for segment in view.segments.range(start, end) if start < end else ():
        later = view.segments.above(segment.base_offset)[:1]
        segment_end = later[0].base_offset if later else ends.valid.offset
        status = disk.status(segment.log_path)
        is_active = not later
        if is_active:
            segment.size = ends.valid.position
        if not segment.size:
            continue
        # If the file was replaced since it was listed, its reader searches by offset.
        is_same = status is not None and (is_active or status.size == segment.size)
        split = Split(
            topic=topic,
            partition=partition,
            directory=view.directory,
            base_offset=segment.base_offset,
            start_offset=max(start, segment.base_offset),
            end_offset=min(end, segment_end),
            topic_id=topic_id,
            aborted=ends.aborted,
            hint=Hint(
                file=lasting_id(status.id) if status is not None and is_same else None,
                size=None if is_active else segment.size,
                position=0,
                end_position=segment.size,
                last_offset=segment_end - 1 if is_active else NO_OFFSET,
            ),
        )
        trimmed = _trimmed(segment, split, segment_end)
        if trimmed is not None:
            aborted = touching(ends.aborted, trimmed.start_offset, trimmed.end_offset)
            yield Piece(split=replace(trimmed, aborted=aborted), segment=segment)


def _trimmed(segment: SegmentReader, split: Split, segment_end: int) -> Split | None:
    """The split with only the bytes that it needs; None if the segment has none of its offsets."""
    hint = split.hint
    try:
        if split.start_offset > segment.base_offset:
            first = locate(segment, split.start_offset)
            if first is None:
                check_whole(segment)
                return None
            hint = replace(hint, position=first.position, first_offset=first.base_offset)
        if split.end_offset < segment_end:
            last = locate(segment, split.end_offset)
            if last is not None and (last.base_offset < split.end_offset or is_wrapper(last)):
                hint = _ending(hint, last.position + last.size, last.last_offset, segment)
            elif last is not None:
                hint = replace(
                    hint,
                    end_position=last.position,
                    last_offset=NO_OFFSET,
                    next_offset=last.base_offset,
                )
    except CorruptRecordError:
        return split  # the reader finds the damage again and handles it
    return replace(split, hint=hint) if hint.end_position > hint.position else None


def _ending(hint: Hint, end: int, last_offset: int, segment: SegmentReader) -> Hint:
    after = batch_at(segment.read_into, end, segment.size, segment.log_path)
    next_offset = NO_OFFSET if after is None else after.base_offset
    return replace(hint, end_position=end, last_offset=last_offset, next_offset=next_offset)


def _task_size(total: int, options: ReadOptions, cores: int) -> int:
    """How many bytes a task should have."""
    size = min(LARGEST_TASK, max(SMALLEST_TASK, total // (cores * TASKS_PER_CORE)))
    if options.min_partitions:
        size = min(size, max(1, total // options.min_partitions))
    return max(size, 1)


def _by_records(piece: Piece, most: int) -> Iterator[Piece]:
    """The piece cut into pieces of at most this many offsets."""
    split = piece.split
    while split.end_offset - split.start_offset > most:
        offset = split.start_offset + most
        try:
            batch = locate(piece.segment, offset)
        except CorruptRecordError:
            break
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
            break  # the file is gone: the reader searches again
        if batch is None or batch.position >= split.hint.end_position:
            break  # compaction left nothing there
        if batch.base_offset > offset and not is_wrapper(batch):
            offset = min(batch.base_offset, split.end_offset - 1)
        done, split = cut(split, offset, batch)
        yield replace(piece, split=done)
    yield replace(piece, split=split)


def _packed(pieces: list[Piece], size: int, most: int | None) -> Iterator[tuple[Split, ...]]:
    """Groups of splits with about `size` bytes together, and at most `most` offsets.

    A cut is only possible at a batch in the index, at or after the intended place. So after each task the
    rest is divided again, and the number of tasks stays as intended.
    """
    left = sum(piece.split.size for piece in pieces)
    tasks = max(1, round(left / size))
    task: list[Split] = []
    room, offsets = _share(left, tasks, size), 0
    for piece in pieces:
        rest: Piece | None = piece
        while rest is not None:
            split = rest.split
            count = split.end_offset - split.start_offset
            if task and (room <= 0 or (most and offsets + count > most)):
                yield tuple(task)
                tasks -= 1
                task, room, offsets = [], _share(left, tasks, size), 0
            first, rest = _cut_behind(rest, room) if split.size > room + size // 16 else (rest, None)
            task.append(first.split)
            left -= first.split.size
            room -= first.split.size
            offsets += first.split.end_offset - first.split.start_offset
    if task:
        yield tuple(task)


def _share(left: int, tasks: int, size: int) -> int:
    """The size of the next task; the last task also takes what is left, if that is little."""
    return max(1, min(left // max(tasks, 1), 2 * size))


def _cut_behind(piece: Piece, size: int) -> tuple[Piece, Piece | None]:
    """The piece cut in two, the first of about `size` bytes; whole if the index names no place for a cut."""
    split, hint = piece.split, piece.split.hint
    try:
        batch = split_point(piece.segment, hint.position + size)
    except DiskError as error:
        if error.errno != errno.ENOENT:
            raise
        return piece, None  # the file is gone: the reader searches again
    if batch is None or batch.position >= hint.end_position:
        return piece, None
    if not split.start_offset < batch.base_offset < split.end_offset:
        return piece, None
    left, right = cut(split, batch.base_offset, batch)
    return replace(piece, split=left), replace(piece, split=right)
