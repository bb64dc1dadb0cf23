"""`stratalog-move.json`: a note that a log is being replaced by its copy in another log directory.

{"version": 0, "topic": "orders", "partition": 0, "from": "/disk-1"}

The swap is two renames: the copy gets the log's name, and the old log in the other directory gets the suffix
-delete. No file system does both at once. A crash in between leaves the partition in both directories, and
Kafka then refuses to start until somebody removes one of them. So this note is written to the log directory
of the copy before the renames, when the copy is complete and on the device. It is removed last. If recovery
finds the note and the partition in both directories, it retires the old log. In any other state it only
deletes the note, because the names alone show how far the swap came.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from typing import NamedTuple
from uuid import uuid4

from stratalog.errors import InvalidNameError
from stratalog.files.disk import Disk
from stratalog.files.names import DirectoryState, TopicPartition, check_topic_name, partition_directory_name
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader

logger = logging.getLogger(__name__)

NOTE = "stratalog-move.json"
_VERSION = 0


class PendingMove(NamedTuple):
    """The partition, and the log directory that it leaves."""

    topic_partition: TopicPartition
    source: str


def note_move(disk: Disk, directory: str, move: PendingMove) -> None:
    """Write the note that the copy in this directory replaces the log; on the device when this returns."""
    document = {
        "version": _VERSION,
        "topic": move.topic_partition.topic,
        "partition": move.topic_partition.partition,
        "from": move.source,
    }
    disk.replace(_path(directory), json.dumps(document).encode())


def forget_move(disk: Disk, directory: str) -> None:
    """Remove the note: the old log is gone."""
    disk.delete(_path(directory))


def read_pending_move(disk: DiskReader, directory: str) -> PendingMove | None:
    """The move to this directory that a crash interrupted; None if there is no note, or it is not valid."""
    data = disk.read_file(_path(directory))
    return None if data is None else _parse(data)


def finish_pending_move(disk: Disk, directory: str, others: Collection[str]) -> None:
    """Retire the old log if both the old log and its copy here have the partition's name.

    Needs the locks of this directory and of `others`. If the old log is in a directory that is not among
    `others`, nothing is changed, and the note stays.
    """
    data = disk.read_file(_path(directory))
    if data is None:
        return
    move = _parse(data)
    if move is not None:
        name = str(move.topic_partition)
        old = join_path(move.source, name)
        if disk.exists(join_path(directory, name)) and disk.exists(old):
            if move.source not in others:
                return
            retired = partition_directory_name(move.topic_partition, DirectoryState.DELETE, uuid4().hex)
            logger.warning("%s has moved to %s, and is now %s", old, directory, retired)
            disk.release(old)
            disk.rename(old, join_path(move.source, retired))
            disk.sync_directory(move.source)
    forget_move(disk, directory)


def _path(directory: str) -> str:
    return join_path(directory, NOTE)


def _parse(data: bytes) -> PendingMove | None:
    """The content of a note; None if it is not valid, so that no directory is touched."""
    try:
        found = json.loads(data)
        if found["version"] != _VERSION:
            return None
        topic, partition, source = found["topic"], found["partition"], found["from"]
        check_topic_name(topic)
    except (ValueError, KeyError, TypeError, RecursionError, InvalidNameError):
        return None
    if not isinstance(partition, int) or not isinstance(source, str):
        return None
    return PendingMove(TopicPartition(topic, partition), source)
