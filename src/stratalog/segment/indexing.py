"""Adds what a set of batches brings to the indexes of its segment, by the rule of `kernels/index.py`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stratalog.errors import IndexFullError, InvalidOffsetError, SegmentOffsetOverflowError
from stratalog.records.kernels import index as kernel
from stratalog.records.kernels.walk import BatchTable
from stratalog.segment.offset_index import OffsetIndex
from stratalog.segment.time_index import NO_TIMESTAMP, TimeIndex


class Indexed(NamedTuple):
    """How far a segment has come, apart from its indexes; `problem` is why it did not come further."""

    since_entry: int
    max_timestamp: int
    offset_of_max_timestamp: int
    problem: SegmentOffsetOverflowError | IndexFullError | InvalidOffsetError | None = None


def prepare(offsets: OffsetIndex, times: TimeIndex, before: Indexed) -> kernel.ProgressTable:
    """What the rule starts from. Done before bytes are written, so that a failure here changes nothing."""
    base_offset = offsets.base_offset
    last_offset = offsets.last_entry.offset - base_offset if offsets.entry_count else -1
    last_time = times.last_entry if times.entry_count else (NO_TIMESTAMP, base_offset - 1)
    # Kafka makes both files when it asks, before each append, whether they are full.
    offsets.create()
    times.create()
    progress = np.zeros(1, kernel.PROGRESS)
    progress[0] = (
        before.since_entry,
        before.max_timestamp,
        before.offset_of_max_timestamp - base_offset,
        last_offset,
        last_time[0],
        last_time[1] - base_offset,
    )
    return progress


def index_set(
    batches: BatchTable,
    position: int,
    interval: int,
    progress: kernel.ProgressTable,
    offsets: OffsetIndex,
    times: TimeIndex,
) -> Indexed:
    """Write the entries of a set whose first batch is at `position` of the log; one write for each index."""
    offset_entries = np.empty((len(batches), 2), np.int64)
    time_entries = np.empty((len(batches), 2), np.int64)
    room = (offsets.max_entries - offsets.entry_count, times.max_entries - 1 - times.entry_count)
    done, offset_count, time_count, outcome = kernel.index_batches(
        batches,
        position - int(batches[0]["position"]),
        offsets.base_offset,
        interval,
        room,
        progress,
        offset_entries,
        time_entries,
    )
    offsets.append_checked(offset_entries[:offset_count])
    times.append_checked(time_entries[:time_count])
    since_entry, timestamp, offset = progress[0].item()[:3]
    problem = None
    if outcome != kernel.INDEXED:
        problem = _problem(outcome, int(batches[done]["last_offset"]), offsets, times)
    return Indexed(since_entry, timestamp, offsets.base_offset + offset, problem)


def _problem(
    outcome: int, last_offset: int, offsets: OffsetIndex, times: TimeIndex
) -> SegmentOffsetOverflowError | IndexFullError | InvalidOffsetError:
    if outcome == kernel.OFFSET_OVERFLOW:
        return SegmentOffsetOverflowError(offsets.path, offsets.base_offset, last_offset)
    if outcome == kernel.OFFSET_INDEX_FULL:
        return IndexFullError(offsets.path, offsets.entry_count)
    if outcome == kernel.TIME_INDEX_FULL:
        return IndexFullError(times.path, times.entry_count)
    return InvalidOffsetError(offsets.path, last_offset, offsets.last_entry.offset)
