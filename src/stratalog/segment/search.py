"""Finds the first record at or after a time, starting at the batch that an index points to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stratalog.limits import INT64_MAX
from stratalog.records.compression import DEFAULT_LIMIT, Scratch
from stratalog.records.kernels import decode as decoding
from stratalog.records.kernels import index as kernel
from stratalog.records.kernels import lookup
from stratalog.records.kernels.memory import byte_array
from stratalog.records.reader import BatchRow
from stratalog.records.unpack import invalid_record, next_run
from stratalog.records.walk import new_table, walk_batches

_ROWS = 256
# The size of the first read depends on the index, within these limits.
_SMALLEST_WINDOW, _LARGEST_WINDOW = 4 << 10, 64 << 10


class _Workspace(threading.local):
    """Memory for one thread: allocating it for each lookup would cost more than most lookups."""

    def __init__(self) -> None:
        self.scratch = Scratch(64 << 10)
        self.table = new_table(1)
        self.rows = np.zeros(_ROWS, decoding.RECORD)


class _Window(threading.local):
    """The memory for the first read, as an array and as a view of it."""

    def __init__(self) -> None:
        array = np.zeros(_LARGEST_WINDOW, np.uint8)
        self.buffers = (array, array.data)


_workspace, _window = _Workspace(), _Window()
FindBatch = Callable[[int, int, int], BatchRow | None]
ReadBytes = Callable[[int, int], bytes]
ReadIntoView = Callable[[memoryview, int], int]


class TimestampAndOffset(NamedTuple):
    """A record's timestamp and offset, and the leader epoch of its batch, or None."""

    timestamp: int
    offset: int
    leader_epoch: int | None


def find_record(
    read_into: ReadIntoView,
    find_batch: FindBatch,
    read_bytes: ReadBytes,
    *,
    start: int,
    reach: int,
    timestamp: int,
    start_offset: int,
) -> TimestampAndOffset | None:
    """The first record with this timestamp or a later one, from byte `start` and from start_offset on.

    The record is most likely before byte `reach`: the file is read up to there at once, and searched by one
    kernel. If the kernel does not find it, the search goes on batch by batch.
    """
    window, view = _window.buffers
    size = max(reach - start, _SMALLEST_WINDOW)
    if size > _LARGEST_WINDOW:
        size = _SMALLEST_WINDOW  # batches are large: read only the wanted one
    filled = read_into(view[:size], start)
    is_found, at, found_timestamp, offset, epoch = lookup.find_record(window, filled, timestamp, start_offset)
    if is_found:
        return TimestampAndOffset(found_timestamp, offset, epoch if epoch >= 0 else None)
    return _find_by_batches(find_batch, read_bytes, start + at, timestamp, start_offset)


def _find_by_batches(
    find_batch: FindBatch, read_bytes: ReadBytes, position: int, timestamp: int, start_offset: int
) -> TimestampAndOffset | None:
    while True:
        batch = find_batch(position, kernel.TIMESTAMP_AT_LEAST, timestamp)
        if batch is None:
            return None
        # A batch below start_offset may have the timestamp, but its records are not wanted.
        if batch.last_offset >= start_offset:
            found = find_in_batch(read_bytes(batch.position, batch.size), timestamp, start_offset)
            if found is not None:
                epoch = batch.partition_leader_epoch
                return TimestampAndOffset(*found, epoch if epoch >= 0 else None)
        position = batch.position + batch.size


def find_in_batch(data: bytes, timestamp: int, start_offset: int) -> tuple[int, int] | None:
    """(timestamp, offset) of a batch's first record from start_offset on that is not before the timestamp."""
    array = byte_array(data)
    headers = walk_batches(array, table=_workspace.table, check_crc=False).headers
    if not len(headers):
        return None  # the log was truncated meanwhile
    run = next_run(array, headers, 0, _workspace.scratch, DEFAULT_LIMIT)
    if run.problem is not None:
        raise run.problem
    decode = decoding.decode_legacy if run.is_legacy else decoding.decode
    rows = _workspace.rows
    at, outcome = (0, 0, 0), decoding.MORE
    while outcome == decoding.MORE:
        count, outcome, at = decode(run.data, run.batches, rows, at, INT64_MAX, start_offset, INT64_MAX)
        late = np.flatnonzero(rows["timestamp"][:count] >= timestamp)
        if late.size:
            row = rows[int(late[0])]
            return int(row["timestamp"]), int(row["offset"])
    if outcome != decoding.DONE:
        raise invalid_record(headers[0], outcome)
    return None
