"""Moving a log to another log directory: a copy is filled beside it, and takes its place when it has all.

Kafka: ReplicaAlterLogDirsThread, LogManager.replaceCurrentWithFutureLog
"""

from __future__ import annotations

import os

from stratalog.errors import UnexpectedAppendOffsetError
from stratalog.log.log import Log
from stratalog.log.reading import Isolation
from stratalog.manager.registry import home_of

_CHUNK_SIZE = 1 << 20
_ANY_EPOCH = 2**31 - 1  # batches of all leaders are taken: the log that they come from has checked them


def catch_up(source: Log, copy: Log) -> int:
    """Append to the copy what the log has more, byte for byte; returns how many bytes that were.

    A copy that ends before the log begins, or is ahead of it because the log was cut, is put right first.
    """
    if copy.log_end_offset < source.log_start_offset:
        copy.truncate_fully_and_start_at(source.log_start_offset)
    copy.truncate_to(source.log_end_offset)
    done = 0
    while copy.log_end_offset < source.log_end_offset:
        records = source.read(copy.log_end_offset, _CHUNK_SIZE, isolation=Isolation.LOG_END).records
        if not records:
            break  # nothing is left up to the end, as behind a compaction
        done += _append(copy, records)
    return done


def _append(copy: Log, records: bytes) -> int:
    try:
        return copy.append_as_follower(records, leader_epoch=_ANY_EPOCH).size
    except UnexpectedAppendOffsetError as error:
        is_empty = copy.log_start_offset == copy.log_end_offset
        if not is_empty or error.last_offset < copy.log_end_offset:
            raise
        # The log starts inside its first batch, which begins before that: so does the copy, for now.
        copy.truncate_fully_and_start_at(error.first_offset)
        return copy.append_as_follower(records, leader_epoch=_ANY_EPOCH).size


def take_place_of(copy: Log, source: Log) -> None:
    """Give the copy the name of a live log, and the marks of the one it replaces."""
    copy.flush()
    copy.rename_directory(f"{home_of(copy)}{os.sep}{copy.topic_partition}")
    copy.update_high_watermark(source.high_watermark)
    if source.log_start_offset > copy.log_start_offset:
        copy.increment_log_start_offset(source.log_start_offset)
