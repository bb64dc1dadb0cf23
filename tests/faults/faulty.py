"""A simulated disk that refuses some kinds of calls, and a node with logs that knows what was flushed.

A failed fsync is the worst of them. Linux marks the pages that it could not write as clean, so the next fsync
finds nothing to do and succeeds, and a power cut loses the records. A program that retries and trusts the
second fsync loses them. This disk does the same.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from stratalog.config import LogConfig, ManagerConfig, ServerConfig
from stratalog.errors import DiskError
from stratalog.files.disk import Path
from stratalog.files.names import TopicPartition
from stratalog.files.refusals import refused
from stratalog.files.simulated import SimulatedDisk
from stratalog.files.simulated_files import SimulatedFile
from stratalog.log.log import Log
from stratalog.log.reading import Isolation
from stratalog.log.scheduler import ScheduledTask
from stratalog.manager.manager import LogManager
from tests.log.model import ManualClock, ManualScheduler, batch, read_all
from tests.manager.test_manager_crashes import NoLock

FIRST, SECOND = "/a", "/b"
ONE, TWO, THREE = (TopicPartition("orders", number) for number in range(3))
HOMES = {ONE: FIRST, TWO: FIRST, THREE: SECOND}
NEW = TopicPartition("new", 0)
SETTINGS = {"internal.segment.bytes": 300, "index.interval.bytes": 100, "segment.index.bytes": 120}
CHANGES = (
    "append",
    "write_at",
    "create",
    "truncate",
    "sync",
    "sync_directory",
    "rename",
    "delete",
    "replace",
    "make_directory",
    "remove_directory",
)
LOOKS = ("open_read", "read_into", "read_at", "size", "status", "list_directory")
NEED_ROOM = ("append", "write_at", "create", "replace", "make_directory", "sync")
Done = TypeVar("Done")


@dataclass
class Refusal:
    """Calls that fail below a directory: all of them, or the one with this number, counted from 0."""

    calls: tuple[str, ...]
    number: int
    below: str = FIRST
    only: int | None = None
    seen: int = 0
    hits: int = 0


class FaultyDisk(SimulatedDisk):
    """A disk that refuses the calls of `refusal`."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.refusal: Refusal | None = None
        self._lying: set[SimulatedFile] = set()

    def refuse(self, call: str, path: Path) -> None:
        found = self.refusal
        name = os.fspath(path)
        if found is None or call not in found.calls or not (name + os.sep).startswith(found.below + os.sep):
            return
        found.seen += 1
        if found.only is None or found.seen == found.only + 1:
            found.hits += 1
            error = OSError(found.number, os.strerror(found.number))
            raise refused(call.replace("_", " "), name, error)

    def sync(self, path: Path) -> None:
        file = self._files.get(os.path.abspath(path))  # noqa: PTH100
        try:
            self.refuse("sync", path)
        except DiskError:
            if file is not None:
                self._lying.add(file)
            raise
        if file in self._lying:
            self._step("sync", path)  # succeeds, but the lost bytes stay lost
        else:
            super().sync(path)


def _refusing(call: str) -> Callable[..., object]:
    real = getattr(SimulatedDisk, call)

    def method(self: FaultyDisk, path: Path, *arguments: object, **options: object) -> object:
        # An open file is read by its descriptor, which fails like its path.
        self.refuse(call, getattr(path, "path", path))
        return real(self, path, *arguments, **options)

    return method


for _call in {*CHANGES, *LOOKS} - {"sync"}:
    setattr(FaultyDisk, _call, _refusing(_call))


@dataclass
class Told:
    """What a log must have after a restart, by offset, and what it may also have."""

    flushed: dict[int, bytes] = field(default_factory=dict)
    waiting: dict[int, bytes] = field(default_factory=dict)

    def give_up(self, below: int = 0, at_least: int = 1 << 62) -> None:
        for records in (self.flushed, self.waiting):
            for offset in [offset for offset in records if offset < below or offset >= at_least]:
                del records[offset]


class WatchedScheduler(ManualScheduler):
    """Continues after a task that fails, like the real scheduler."""

    def __init__(self, clock: ManualClock, errors: list[DiskError]) -> None:
        super().__init__(clock)
        self._errors = errors

    def schedule(self, name: str, task: ScheduledTask, delay_ms: int = 0) -> None:
        def watched() -> None:
            try:
                task()
            except DiskError as error:
                self._errors.append(error)

        super().schedule(name, watched, delay_ms)


class FaultyNode:
    """Two directories with three logs, one of which has a directory to itself."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.disk = FaultyDisk(self.clock)
        for path in (FIRST, SECOND):
            self.disk.make_directories(path)
        self.disk.sync_everything()
        self.told = {key: Told() for key in HOMES}
        self.errors: list[DiskError] = []
        self.manager = self.started(self.disk)
        for key, home in HOMES.items():
            log = self.manager.get_or_create_log(key, directory=home, is_new=True)
            self.append(log, 3)
            self.flush(log)
        self.manager.checkpoint_log_recovery_offsets()

    def started(self, disk: SimulatedDisk) -> LogManager:
        self.scheduler = WatchedScheduler(self.clock, self.errors)
        manager = LogManager(
            [FIRST, SECOND],
            server=ServerConfig(ManagerConfig(log_cleaner_enable=False), LogConfig.of(SETTINGS), ()),
            disk=disk,
            clock=self.clock,
            scheduler=self.scheduler,
            make_lock=NoLock,
            high_watermark_follows_end=True,
        )
        manager.startup()
        return manager

    def attempt(self, key: TopicPartition, act: Callable[[Log], Done]) -> Done | None:
        """Do something with a log; only logs in the first directory may be refused."""
        try:
            log = self.manager.get_log(key)
            assert log is not None
            return act(log)
        except DiskError as error:
            if HOMES[key] != FIRST:
                raise
            self.errors.append(error)
            return None

    def append(self, log: Log, count: int) -> None:
        told = self.told[log.topic_partition]
        for _ in range(count):
            offset = log.log_end_offset
            value = b"%d of %s" % (offset, str(log.topic_partition).encode())
            log.append_as_leader(batch(value), leader_epoch=0)
            told.waiting[offset] = value

    def flush(self, log: Log) -> None:
        log.flush()
        told = self.told[log.topic_partition]
        told.flushed |= told.waiting
        told.waiting.clear()

    def keep_flushing(self, log: Log) -> None:
        for _ in range(10):
            self.flush(log)
            self.append(log, 3)

    def truncate(self, log: Log) -> None:
        offset = log.log_end_offset - 2
        self.told[log.topic_partition].give_up(at_least=offset)
        self.manager.truncate_to({log.topic_partition: offset})

    def delete_records(self, log: Log) -> None:
        offset = log.log_start_offset + 2
        self.told[log.topic_partition].give_up(below=offset)
        log.delete_records(offset)

    def live(self) -> None:
        """Everything that a log and its directory do, in each of the three."""
        for key in HOMES:
            self.attempt(key, lambda log: self.append(log, 9))
            self.attempt(key, self.flush)
            self.attempt(key, lambda log: log.roll())
            self.attempt(key, lambda log: self.append(log, 2))
            self.attempt(key, self.delete_records)
            self.attempt(key, self.truncate)
            self.attempt(key, lambda log: self.append(log, 2))
            self.attempt(key, lambda log: log.delete_old_segments())
            self.attempt(key, self.flush)
            self.attempt(key, lambda log: read_all(log, isolation=Isolation.LOG_END))
        self.manager.checkpoint_log_recovery_offsets()
        self.manager.checkpoint_log_start_offsets()
        self.manager.checkpoint_high_watermarks()
        acts: list[Callable[[], object]] = [
            lambda: self.manager.get_or_create_log(NEW, directory=FIRST, is_new=True),
            lambda: self.manager.async_delete(NEW),
        ]
        for act in acts:
            try:
                act()
            except DiskError as error:
                self.errors.append(error)
        self.clock.sleep(120_000)
        self.scheduler.run_due()

    @property
    def reason(self) -> str | None:
        """Why the first directory is offline; None if it is not."""
        (first,) = (each for each in self.manager.directories if each.path == FIRST)
        return None if first.failure is None else str(first.failure)

    def check_restart(self, found: SimulatedDisk) -> None:
        """After a power cut everything opens, and all flushed records are there."""
        manager = self.started(found)
        assert manager.metrics()["OfflineLogDirectoryCount"] == 0
        for key, told in self.told.items():
            log = manager.get_log(key)
            assert log is not None, f"{key} is gone"
            records = {record.offset: record.value for record in read_all(log, isolation=Isolation.LOG_END)}
            lost = {offset for offset, value in told.flushed.items() if records.get(offset) != value}
            assert not lost, f"{key} lost what was flushed at {sorted(lost)}"
        manager.shutdown()


def number_name(number: int) -> str:
    return errno.errorcode[number]
