"""A log that was killed in the middle of its move, and is in two directories now: one of them is given up.

A move ends with two renames: the copy gets the name of the log, then the log that it replaces is marked
-delete. Nothing is changed in either of them between the two, so that both have the same records. A broker
that was killed there refuses to start until somebody removes one of them by hand; here it is done at the next
start, if they are the same byte for byte. Two that differ are not from a move, and stay an error.
Kafka: LogManager.replaceCurrentWithFutureLog, loadLog
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import NamedTuple
from uuid import uuid4

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.errors import CorruptRecordError, OffsetOutOfRangeError
from stratalog.files.disk import Disk
from stratalog.files.names import DirectoryState, TopicPartition, partition_directory_name
from stratalog.log.view import LogView
from stratalog.manager.layout import PartitionEntry, classify
from stratalog.manager.log_directory import LogDirectory
from stratalog.manager.moving import agreement

logger = logging.getLogger(__name__)


class HalfMoved(NamedTuple):
    """A partition that is in two directories with the same records: the one that stays, the one that goes."""

    topic_partition: TopicPartition
    kept: LogDirectory
    given_up: LogDirectory
    kept_path: str
    given_up_path: str


def find_half_moved(disk: Disk, clock: Clock, directories: Sequence[LogDirectory]) -> list[HalfMoved]:
    """The partitions that a move has left in two of these directories; changes nothing."""
    places: dict[TopicPartition, list[tuple[LogDirectory, PartitionEntry]]] = {}
    for directory in directories:
        for entry in directory.layout.partitions:
            if entry.state is DirectoryState.LIVE:
                places.setdefault(entry.topic_partition, []).append((directory, entry))
    found = []
    for topic_partition, twice in places.items():
        if len(twice) == 2 and twice[0][0] is not twice[1][0]:
            half = _compare(disk, clock, topic_partition, twice)
            if half is not None:
                found.append(half)
    return found


def finish_move(disk: Disk, half: HalfMoved) -> None:
    """Mark the second one -delete, and forget how far the first one was clean.

    Of the cleaner's checkpoint in either directory it is not known which of the two it is about; without one
    the log is cleaned from its start, which is always right.
    """
    name = partition_directory_name(half.topic_partition, DirectoryState.DELETE, uuid4().hex)
    logger.warning(
        "%s is in %s and in %s, as a move was interrupted: the second one is now %s.",
        half.topic_partition,
        half.kept_path,
        half.given_up_path,
        name,
    )
    for directory in (half.kept, half.given_up):
        directory.before_change()
        offsets = directory.checkpoints.cleaner_offsets.read()
        if offsets.pop(half.topic_partition, None) is not None:
            directory.checkpoints.cleaner_offsets.write(offsets)
    disk.rename(half.given_up_path, f"{half.given_up.path}{os.sep}{name}")
    disk.sync_directory(half.given_up.path)
    half.given_up.layout = classify(disk, half.given_up.path)


def _compare(
    disk: Disk,
    clock: Clock,
    topic_partition: TopicPartition,
    twice: Sequence[tuple[LogDirectory, PartitionEntry]],
) -> HalfMoved | None:
    views = [_view(disk, clock, directory, entry) for directory, entry in twice]
    try:
        one, two = views
        if one.log_end_offset != two.log_end_offset or agreement(one, two) != one.log_end_offset:
            return None
        # What was deleted stays deleted: the one with the later start knows of it.
        kept, given_up = (0, 1) if one.log_start_offset >= two.log_start_offset else (1, 0)
        return HalfMoved(
            topic_partition,
            twice[kept][0],
            twice[given_up][0],
            views[kept].directory,
            views[given_up].directory,
        )
    except (CorruptRecordError, OffsetOutOfRangeError):
        return None  # not what a move leaves
    finally:
        for view in views:
            view.close()


def _view(disk: Disk, clock: Clock, directory: LogDirectory, entry: PartitionEntry) -> LogView:
    return LogView(
        disk=disk,
        clock=clock,
        directory=directory.layout.path(entry),
        topic_partition=entry.topic_partition,
        config=LogConfig(),
        log_start_offset=max(0, directory.checkpoints.log_start_offsets.read().get(entry.topic_partition, 0)),
    )
