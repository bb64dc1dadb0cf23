"""The copies of logs that are being moved to another directory: begun, filled, swapped in.

The cleaning of a log is paused from before its copy is begun until the copy is gone. A copy that was filled
partly before and partly after a cleaning could have a record without the tombstone that deletes it. A copy
that an earlier run has begun is *unproven*: since then a broker or `stratalog compact` may have compacted or
cut the log. So its batches are compared with the log before it replaces the log. If a log is truncated while
it is copied, the copy is truncated too: by the thread that fills it, and not later than at the swap.

Kafka: ReplicaAlterLogDirsThread, LogManager.replaceCurrentWithFutureLog, abortAndPauseCleaning in
ReplicaManager
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from stratalog.directory.pending_move import PendingMove, forget_move, note_move
from stratalog.errors import LogMovedError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.log.guard import refuse_if_inside
from stratalog.log.log import Log
from stratalog.manager.cleaner_manager import LogCleanerManager
from stratalog.manager.homes import Homes
from stratalog.manager.moving import agreement, catch_up, take_marks_of, take_name
from stratalog.manager.registry import LogRegistry

_MOST_ROUNDS = 10  # each round copies what was appended meanwhile; then appends wait for the rest
_MOST_LEFT_SIZE = 1 << 20  # a round that copies no more bytes than this is the last


class Copies:
    """The copies of one manager's logs. Callers hold the manager's lock, except for `filling` and `fill`."""

    def __init__(self, logs: LogRegistry, cleaner: LogCleanerManager, disk: Disk, homes: Homes) -> None:
        self._logs = logs
        self._cleaner = cleaner
        self._disk = disk
        self._homes = homes
        self._moving: set[TopicPartition] = set()
        self._unproven: set[TopicPartition] = set()
        self._fillers: dict[TopicPartition, Any] = {}  # Any: an RLock's `_is_owned` is missing in its type

    def begin(self, topic_partition: TopicPartition) -> None:
        """Pause the cleaning of a log before its copy is begun."""
        if topic_partition not in self._moving:
            self._cleaner.abort_and_pause(topic_partition)
            self._moving.add(topic_partition)
            source = self._logs.current.get(topic_partition)
            if source is not None:
                source.forget_cuts(source.cuts)  # earlier cuts do not concern a new copy

    def go_on(self) -> None:
        """Continue the copies that an earlier run has begun."""
        for topic_partition in self._logs.future:
            self.begin(topic_partition)
            self._unproven.add(topic_partition)

    def end(self) -> None:
        """Resume the cleaning of logs that have no copy any more: it has replaced the log, or is gone."""
        done = self._moving - self._logs.future.keys()
        self._moving -= done
        self._unproven -= done
        self._cleaner.resume(done)

    @contextmanager
    def filling(self, topic_partition: TopicPartition) -> Iterator[None]:
        """Let one thread at a time move a log; called without the manager's lock.

        Two threads that fill the same copy would each see only a part of the truncations.
        """
        with self._fillers.setdefault(topic_partition, threading.RLock()):
            yield

    def check_outside(self, topic_partition: TopicPartition) -> None:
        """UsageError if this thread is moving the log already: a signal handler, which would wait forever."""
        if (lock := self._fillers.get(topic_partition)) is not None:
            refuse_if_inside(str(topic_partition), lock)

    def fill(self, source: Log, copy: Log) -> None:
        """Copy nearly all of a log while it is in use; the caller copies the rest while appends wait."""
        if source.topic_partition in self._unproven:
            copy.truncate_to(agreement(source, copy))
            self._unproven.discard(source.topic_partition)
        for _ in range(_MOST_ROUNDS):
            if catch_up(source, copy) <= _MOST_LEFT_SIZE:
                break

    def swap(self, source: Log, copy: Log) -> None:
        """Replace a log by its copy, which must be complete; the old log is deleted."""
        key, do = source.topic_partition, self._homes
        old_home, home = do.of(source), do.of(copy)
        with source.holding_changes() as source, copy.holding_changes() as copy:
            if copy.log_end_offset != source.log_end_offset:
                raise no_copy(key)
            if key in self._unproven or source.cuts.lowest_end < copy.log_end_offset:
                _check_same(source, copy)
            try:
                do.act_in(home, lambda: take_marks_of(copy, source))
                # Written before the copy gets the log's name. So after a crash the checkpoints have its start
                # and its end, and no cleaner offset of an older log with that name.
                do.checkpoint_all(home)
                self._cleaner.forget(home.path, key)
                move = PendingMove(key, old_home.path)
                do.act_in(home, lambda: note_move(self._disk, home.path, move))
                do.act_in(home, lambda: take_name(copy))
                self._logs.promote(key)
                self._cleaner.move(key, old_home.path, home.path)
                do.retire(source, partial(LogMovedError, source.directory, copy.directory))
                do.act_in(home, lambda: forget_move(self._disk, home.path))
            finally:
                self.end()
        do.checkpoint_all(home)
        do.checkpoint_all(old_home)


def no_copy(topic_partition: TopicPartition) -> UsageError:
    return UsageError(f"{topic_partition} has no complete copy that could replace it.")


def _check_same(source: Log, copy: Log) -> None:
    """UsageError if a copy does not have exactly the log's batches."""
    offset = agreement(source, copy)
    if offset < copy.log_end_offset:
        raise UsageError(
            f"{copy.directory} differs from {source.directory} from offset {offset} on: the log was "
            "truncated or compacted after this part was copied. Truncate the copy to that offset, and fill "
            "it again."
        )
