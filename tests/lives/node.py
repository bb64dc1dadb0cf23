"""The life of a node: a `LogManager` with two directories and three topics.

One topic is deleted by size, one is compacted, one is both. Retention, compaction, moves and checkpoints are
added to the operations of every life, and crashes after which the next process continues with what it finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar
from unittest.mock import patch

from stratalog.config import LogConfig, ManagerConfig, ServerConfig
from stratalog.directory.topic_configs import TopicConfigs
from stratalog.errors import LogMovedError
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.log import Log
from stratalog.manager import moving
from stratalog.manager.manager import LogManager
from stratalog.manager.registry import home_of
from tests.lives.book import Book, Lost
from tests.lives.life import Life
from tests.log.model import ManualScheduler
from tests.manager.test_manager_crashes import NoLock

EVENTS = TopicPartition("events", 0)
STATE = TopicPartition("state", 0)
BOTH = TopicPartition("both", 0)
DIRECTORIES = ("/disk-1", "/disk-2")
MAP_SIZE = 24 * 64
CHUNK_SIZE = 400


class NodeLife(Life):
    """What a program does with a log manager."""

    has_replicas: ClassVar = False
    operations: ClassVar = {
        "append": 12,
        "produce": 5,
        "transact": 3,
        "end": 3,
        "retry": 2,
        "roll": 3,
        "flush": 5,
        "delete": 2,
        "truncate": 2,
        "tick": 3,
        "read": 4,
        "clean": 4,
        "retention": 2,
        "move": 2,
        "checkpoint": 2,
        "reopen": 1,
        "crash": 1,
    }
    interruptions: ClassVar = {
        "read": ("clean", "clean", "append", "roll", "truncate", "delete", "retention", "tick"),
        "move": ("clean", "clean", "append", "flush", "delete", "read"),
        "clean": ("append", "read", "flush", "roll"),
        "flush": ("append", "roll"),
    }

    def draw_settings(self) -> dict[TopicPartition, dict[str, int | str]]:
        draw = self.random
        shared: dict[str, int | str] = {
            "internal.segment.bytes": draw.choice([1000, 1000, 1500, 4000]),
            "index.interval.bytes": draw.choice([1, 150]),
            "segment.index.bytes": 240,
            "file.delete.delay.ms": draw.choice([0, 1000]),
            "delete.retention.ms": draw.choice([0, 1000]),
            "min.cleanable.dirty.ratio": draw.choice(["0.0", "0.2"]),
            "max.message.bytes": 100_000,
            "retention.ms": -1,
        }
        size = draw.choice([1500, 4000])
        return {
            EVENTS: {**shared, "cleanup.policy": "delete", "retention.bytes": size},
            STATE: {**shared, "cleanup.policy": "compact"},
            BOTH: {**shared, "cleanup.policy": "compact,delete", "retention.bytes": 3 * size},
        }

    def run(self) -> None:
        with patch.object(moving, "_CHUNK_SIZE", CHUNK_SIZE):  # so that a copy takes several steps
            super().run()

    def begin(self) -> None:
        self._topics = TopicConfigs(None, {key.topic: found for key, found in self.settings.items()})
        for directory in DIRECTORIES:
            self.disk.make_directories(directory)
        self.disk.sync_everything()
        self.manager = self._manager_on(self.disk, self.scheduler)
        self.watch()
        self.manager.startup()
        self._map = self.manager.cleaner.new_map()
        for key in (EVENTS, STATE, BOTH):
            self.books[key] = Book(is_compacted=key is not EVENTS, has_replicas=self.has_replicas)
            self.do("create", key)

    def let_go(self) -> None:
        self.manager._let_go()

    @contextmanager
    def opened(self, disk: SimulatedDisk, *, shut_down: bool) -> Iterator[dict[TopicPartition, Log]]:
        manager = self._manager_on(disk, ManualScheduler(self.clock))
        try:
            manager.startup()
            yield self._logs_of(manager)
            if shut_down:
                for log in manager.all_logs():
                    if "-future" in log.directory:  # the crash was during a move, which goes on
                        manager.move_log(log.topic_partition, home_of(log))
                manager.shutdown()
        finally:
            manager._let_go()

    def _manager_on(self, disk: SimulatedDisk, scheduler: ManualScheduler) -> LogManager:
        config = ManagerConfig(
            num_recovery_threads_per_data_dir=1,
            log_cleaner_enable=False,  # a life cleans when its turn comes
            log_cleaner_dedupe_buffer_size=MAP_SIZE,
        )
        return LogManager(
            DIRECTORIES,
            server=ServerConfig(config, LogConfig(), ()),
            topics=self._topics,
            disk=disk,
            clock=self.clock,
            scheduler=scheduler,
            make_lock=NoLock,
            high_watermark_follows_end=not self.has_replicas,
        )

    def _logs_of(self, manager: LogManager) -> dict[TopicPartition, Log]:
        if len(manager.live_log_dirs) != len(DIRECTORIES):
            raise Lost(f"offline: {[each.failure for each in manager.directories]}")
        logs: dict[TopicPartition, Log] = {
            log.topic_partition: log for log in manager.all_logs() if "-future" not in log.directory
        }
        self.appended(logs)
        return logs

    def appended(self, logs: dict[TopicPartition, Log] | None = None) -> None:
        """The replicas, if there are any, have everything at once."""
        if self.has_replicas:
            for log in (self.logs if logs is None else logs).values():
                with suppress(LogMovedError):
                    log.update_high_watermark(log.log_end_offset)

    # Operations of a node

    def do_create(self, key: TopicPartition) -> None:
        self.logs[key] = self.manager.get_or_create_log(key, is_new=True)
        self.books[key].is_created = True

    def truncate(self, key: TopicPartition, offset: int) -> None:
        while True:
            try:
                return self.manager.truncate_to({key: offset})
            except LogMovedError:
                pass  # it has moved meanwhile, and is truncated where it is now

    def delete(self, key: TopicPartition, offset: int) -> None:
        self.logs[key].delete_records(offset)

    def do_retention(self, key: TopicPartition) -> None:
        del key
        with self._giving_up(EVENTS):
            self.manager.cleaner.clean_up_logs()

    def do_clean(self, key: TopicPartition) -> None:
        """Compact the dirtiest log, and delete old segments of logs with both policies."""
        del key
        self.clock.sleep(self.random.choice([0, 1500]))
        with self._giving_up(STATE, BOTH):
            self.manager.cleaner.clean_once(self._map)
        if self.manager.cleaner.manager.uncleanable_size():
            raise Lost("a log could not be cleaned")

    def do_scrub(self, key: TopicPartition) -> None:
        """Compact a log until its deleted keys are gone: one round dates a tombstone, another removes it."""
        for _ in range(3):
            self.do_append(key)
            self.do_roll(key)
            self.clock.sleep(1500)
            self.do_clean(key)

    @contextmanager
    def _giving_up(self, *keys: TopicPartition) -> Iterator[None]:
        for key in keys:
            self.books[key].begin_delete(self.books[key].end)
        yield
        for key in keys:
            book = self.books[key]
            book.start_limit = book.start
            book.end_delete(self.logs[key].log_start_offset)

    def do_move(self, key: TopicPartition) -> None:
        (target,) = {*DIRECTORIES} - {home_of(self.logs[key])}
        self.logs[key] = self.manager.move_log(key, target)

    def do_checkpoint(self, key: TopicPartition) -> None:
        del key
        self.manager.checkpoint_log_recovery_offsets()
        self.manager.checkpoint_log_start_offsets()
        self.manager.checkpoint_high_watermarks()

    def do_reopen(self, key: TopicPartition) -> None:
        """A clean end, and the next start."""
        del key
        self.manager.shutdown()
        for book in self.books.values():
            book.flushed(book.end)
        self._restart(self.disk)
        for key, book in self.books.items():
            book.reopened(self.logs[key])

    def do_crash(self, key: TopicPartition) -> None:
        """Cut the power, and continue the life with what is found."""
        del key
        found = self.random.choice(self.disk.crash(5))
        self.disk.before_step = None
        self.manager._let_go()
        self._restart(found)
        for key, book in self.books.items():
            book.judge(self.logs[key])
            book.found(self.logs[key])
            self.forget_producers(key)

    def _restart(self, disk: SimulatedDisk) -> None:
        self.disk, self.scheduler = disk, ManualScheduler(self.clock)
        self.manager = self._manager_on(disk, self.scheduler)
        self.watch()
        self.manager.startup()
        self.logs = self._logs_of(self.manager)
        gone = self.books.keys() - self.logs.keys()
        if gone:
            raise Lost(f"{gone} are gone")


class ReplicaLife(NodeLife):
    """The same with replicas: a roll does not wait for the device, as in Kafka."""

    has_replicas: ClassVar = True


class CompactingLife(NodeLife):
    """Mostly compaction, with readers and moves in the middle of it."""

    operations: ClassVar = {
        "append": 24,
        "roll": 4,
        "flush": 3,
        "read": 8,
        "clean": 3,
        "move": 4,
        "truncate": 1,
        "reopen": 1,
    }
    interruptions: ClassVar = {"read": ("clean",), "move": ("scrub",), "clean": ("append", "read")}


class MovingLife(NodeLife):
    """Mostly moves, of logs that lose records and get others meanwhile."""

    operations: ClassVar = {
        "append": 24,
        "produce": 4,
        "roll": 2,
        "flush": 2,
        "move": 8,
        "truncate": 1,
        "reopen": 1,
        "crash": 1,
    }
    interruptions: ClassVar = {"move": ("rewrite", "rewrite", "truncate", "delete", "retention", "roll")}
    held_up_by: ClassVar = {"move": 16}  # which is in the middle of the copying
    steps_between: ClassVar = 60

    def do_rewrite(self, key: TopicPartition) -> None:
        """Truncate a log, and append to it until it is longer than before, if it does not move meanwhile."""
        end = self.books[key].end
        self.do_truncate(key)
        while self.books[key].end <= end and self.manager.get_log(key) is self.logs[key]:
            self.do_append(key)


class QueueLife(ReplicaLife):
    """Records are deleted when they are processed, and flushed; there is no background work."""

    operations: ClassVar = {"append": 14, "roll": 4, "delete": 4, "flush": 4, "checkpoint": 1, "reopen": 1}
    interruptions: ClassVar = {}
    large: ClassVar = 0.5


class FollowerLife(ReplicaLife):
    """A replica that has stored its checkpoints, and then truncates what its new leader does not have."""

    operations: ClassVar = {"append": 6, "follow": 3, "flush": 1, "tick": 1, "reopen": 1}
    interruptions: ClassVar = {}
    large: ClassVar = 0.5
    steps_between: ClassVar = 60

    def do_follow(self, key: TopicPartition) -> None:
        """Truncate a log, and append to it until it is longer than before. Nothing is flushed meanwhile."""
        self.do_flush(key)
        self.do_checkpoint(key)
        end = self.books[key].end
        self.do_truncate(key)
        while self.books[key].end <= end:
            self.do_append(key)

    def truncate(self, key: TopicPartition, offset: int) -> None:
        self.logs[key].truncate_to(offset)  # only a manager's own truncation writes the checkpoints as well
