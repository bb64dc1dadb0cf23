"""The life of a lone log, which a program has open by `open_log`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar
from unittest.mock import patch

from stratalog import PartitionLog, open_log
from stratalog.files.lock import DirectoryLock
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.log import Log
from tests.lives.book import Book
from tests.lives.life import Life
from tests.log.model import ManualScheduler

ORDERS = TopicPartition("orders", 0)
PLACE = f"/lives/{ORDERS}"
LOCKING = ("acquire", "acquire_after_trial", "confirm", "check", "release")


def _no_lock(lock: DirectoryLock, **_: bool) -> None:
    del lock


class LoneLife(Life):
    """What a program does with one log of its own."""

    operations: ClassVar = {
        "append": 12,
        "produce": 5,
        "transact": 3,
        "end": 3,
        "retry": 2,
        "roll": 4,
        "flush": 5,
        "delete": 3,
        "truncate": 3,
        "begin_anew": 1,
        "tick": 3,
        "read": 3,
        "retention": 2,
        "reopen": 2,
        "crash": 2,
    }
    interruptions: ClassVar = {
        "read": ("append", "roll", "truncate", "delete", "retention", "tick"),
        "flush": ("append", "roll"),
    }
    steps_between: ClassVar = 12

    def draw_settings(self) -> dict[TopicPartition, dict[str, int | str]]:
        draw = self.random
        return {
            ORDERS: {
                "internal.segment.bytes": draw.choice([1000, 1500, 4000]),
                "index.interval.bytes": draw.choice([1, 150]),
                "segment.index.bytes": 240,
                "file.delete.delay.ms": draw.choice([0, 1000]),
                "cleanup.policy": "delete",
                "retention.bytes": draw.choice([1500, 4000]),
                "retention.ms": -1,
            }
        }

    def begin(self) -> None:
        self.disk.make_directories("/lives")
        self.disk.sync_everything()
        self.books[ORDERS] = Book()
        self.log = self._open(self.disk, self.scheduler, create=True)
        self.logs[ORDERS] = self.log.log
        self.books[ORDERS].is_created = True
        self.watch()

    def let_go(self) -> None:
        if self.logs:
            self._let_go(self.log)

    def run(self) -> None:
        # The directories are on the simulated disk, but the locks are not.
        unlocked: dict[str, Any] = dict.fromkeys(LOCKING, _no_lock)
        with patch.multiple(DirectoryLock, **unlocked):
            super().run()

    @contextmanager
    def opened(self, disk: SimulatedDisk, *, shut_down: bool) -> Iterator[dict[TopicPartition, Log]]:
        log = self._open(disk, ManualScheduler(self.clock), create=True)
        try:
            yield {ORDERS: log.log}
            if shut_down:
                log.close()
        finally:
            self._let_go(log)

    def _open(self, disk: SimulatedDisk, scheduler: ManualScheduler, *, create: bool) -> PartitionLog:
        settings = self.settings[ORDERS]
        return open_log(
            PLACE, create=create, config=settings, disk=disk, clock=self.clock, scheduler=scheduler
        )

    def _let_go(self, log: PartitionLog) -> None:
        """End as a process that does not close its log."""
        if not log._is_closed:
            log.log.close_handlers()
            log._is_closed = True

    # Operations of a lone log

    def flush(self, key: TopicPartition) -> None:
        del key
        self.log.flush()

    def truncate(self, key: TopicPartition, offset: int) -> None:
        del key
        self.log.truncate_to(offset)

    def delete(self, key: TopicPartition, offset: int) -> None:
        del key
        self.log.delete_records(offset)

    def do_retention(self, key: TopicPartition) -> None:
        book = self.books[key]
        book.begin_delete(book.end)
        self.log.log.delete_old_segments()
        book.start_limit = book.start
        book.end_delete(self.log.start_offset)

    def do_begin_anew(self, key: TopicPartition) -> None:
        """Truncate below the first segment, if retention has deleted the one before it."""
        first = self.log.log.segments.first.base_offset
        if first > 0:
            self.cut_off(key, self.random.randint(0, first - 1))

    def do_reopen(self, key: TopicPartition) -> None:
        self.log.close()
        book = self.books[key]
        book.flushed(book.end)
        self._restart(self.disk)
        book.reopened(self.log.log)

    def do_crash(self, key: TopicPartition) -> None:
        found = self.random.choice(self.disk.crash(5))
        self.disk.before_step = None
        self._let_go(self.log)
        self._restart(found)
        self.books[key].judge(self.log.log)
        self.books[key].found(self.log.log)
        self.forget_producers(key)

    def _restart(self, disk: SimulatedDisk) -> None:
        self.disk, self.scheduler = disk, ManualScheduler(self.clock)
        self.disk.before_step = None
        self.log = self._open(disk, self.scheduler, create=False)
        self.logs[ORDERS] = self.log.log
        self.watch()
