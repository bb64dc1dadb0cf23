"""Moves a log to another log directory: a copy is filled there, and replaces the log when complete.

Kafka: ReplicaAlterLogDirsThread, LogManager.replaceCurrentWithFutureLog
"""

from __future__ import annotations

import numpy as np

from stratalog.errors import OffsetOutOfRangeError, UnexpectedAppendOffsetError
from stratalog.files.paths import join_path
from stratalog.limits import INT32_MAX
from stratalog.log.log import Log
from stratalog.log.reading import Isolation
from stratalog.manager.registry import home_of
from stratalog.records.kernels.memory import byte_array
from stratalog.records.walk import walk_batches

_CHUNK_SIZE = 1 << 20
_ANY_EPOCH = INT32_MAX  # accepts batches of all leaders: the source log has checked them


def catch_up(source: Log, copy: Log) -> int:
    """Append to the copy the batches that it lacks, byte for byte; returns how many bytes.

    A copy that ends before the log begins, or has records that were cut off the log, is corrected first.
    """
    copy.truncate_to(min(source.take_lowest_end(), source.log_end_offset))
    done = 0
    while copy.log_end_offset < source.log_end_offset:
        if copy.log_end_offset < source.log_start_offset:
            copy.truncate_fully_and_start_at(source.log_start_offset)
        end = source.log_end_offset
        try:
            records = source.read(copy.log_end_offset, _CHUNK_SIZE, isolation=Isolation.LOG_END).records
        except OffsetOutOfRangeError:
            continue  # deleted or cut off since the marks were read
        if not records:
            copy.advance_to(end)  # compaction has left no records up to there
            continue
        done += _append(copy, records)
    return done


def _append(copy: Log, records: bytes) -> int:
    try:
        return copy.append_as_follower(records, leader_epoch=_ANY_EPOCH).size
    except UnexpectedAppendOffsetError as error:
        is_empty = copy.log_start_offset == copy.log_end_offset
        if not is_empty or error.last_offset < copy.log_end_offset:
            raise
        # The log starts inside its first batch. The copy, for now, starts where that batch begins.
        copy.truncate_fully_and_start_at(error.first_offset)
        return copy.append_as_follower(records, leader_epoch=_ANY_EPOCH).size


def agreement(source: Log, copy: Log) -> int:
    """The offset up to which the copy has exactly the log's batches; the copy's end if all are equal."""
    offset = 0
    while True:
        # Asked in each round: records may be deleted or truncated meanwhile.
        offset = max(offset, source.log_start_offset, copy.log_start_offset)
        end = min(source.log_end_offset, copy.log_end_offset)
        if offset >= end:
            return end
        ours = byte_array(copy.read(offset, _CHUNK_SIZE, isolation=Isolation.LOG_END).records)
        try:
            theirs = byte_array(source.read(offset, _CHUNK_SIZE, isolation=Isolation.LOG_END).records)
        except OffsetOutOfRangeError:
            continue
        headers = walk_batches(ours[: len(theirs)], check_crc=False).headers
        if not len(headers):
            return offset if len(ours) else end
        for row in headers:
            start, stop = int(row["position"]), int(row["position"] + row["size"])
            if not np.array_equal(ours[start:stop], theirs[start:stop]):
                return max(offset, int(row["base_offset"]))
        offset = int(headers[-1]["last_offset"]) + 1


def take_marks_of(copy: Log, source: Log) -> None:
    """Flush the copy to the device, and give it the marks of the log it replaces."""
    copy.update_high_watermark(source.high_watermark)
    if source.log_start_offset > copy.log_start_offset:
        copy.increment_log_start_offset(source.log_start_offset)
    copy.take_over_producers(source)
    copy.flush(force=True)


def take_name(copy: Log) -> None:
    """Give the copy the name of a live log."""
    copy.rename_directory(join_path(home_of(copy), str(copy.topic_partition)))
