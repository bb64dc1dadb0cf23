"""A log manager whose clock and scheduled work a test drives by hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stratalog.config import LogConfig, ManagerConfig, ServerConfig
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.log.log import Log
from stratalog.log.reading import Isolation
from stratalog.manager.manager import LogManager
from tests.fixtures.catalog import log_dirs
from tests.log.model import ManualClock, ManualScheduler, batch, read_all

ORDERS = TopicPartition("orders", 0)
MARKER = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
MINUTE_MS = 60_000


class Node:
    """Directories, a clock and a scheduler; managers come and go."""

    def __init__(self, *directories: Path, disk: Disk | None = None, **settings: Any) -> None:
        self.directories = [str(directory) for directory in directories]
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.disk = Disk() if disk is None else disk
        log = {key.replace("_", "."): value for key, value in settings.pop("log", {}).items()}
        settings.setdefault("log_cleaner_enable", False)  # a test that wants threads says so
        self.server = ServerConfig(ManagerConfig(**settings), LogConfig.of(log), ())

    def manager(self, **options: Any) -> LogManager:
        """A manager that is not started yet."""
        return LogManager(
            self.directories,
            server=self.server,
            disk=self.disk,
            clock=self.clock,
            scheduler=self.scheduler,
            **options,
        )

    def start(self, **options: Any) -> LogManager:
        manager = self.manager(**options)
        manager.startup()
        return manager

    @contextmanager
    def running(self, **options: Any) -> Iterator[LogManager]:
        with self.manager(**options) as manager:
            yield manager

    def wait(self, ms: int) -> list[str]:
        """Let time pass, and run the work that is due then."""
        self.clock.sleep(ms)
        return self.scheduler.run_due()


def append(log: Log, *values: bytes) -> None:
    for value in values:
        log.append_as_leader(batch(value), leader_epoch=0)


def values(log: Log) -> list[bytes | None]:
    return [record.value for record in read_all(log, isolation=Isolation.LOG_END)]


def fixture_copy(state: str, target: Path, *, without_waiting: bool = False) -> Path:
    """A log directory of a real broker, to be written to."""
    (source,) = log_dirs("4.3.1", state)
    shutil.copytree(source, target)
    if without_waiting:
        for path in target.glob("*-delete"):
            shutil.rmtree(path)
    return target


def contents(directory: Path, *, but: tuple[str, ...] = ()) -> dict[str, bytes]:
    """All files below a directory, except the lock, which is empty."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != ".lock" and path.name not in but
    }


def checkpoint(directory: Path | str, name: str) -> dict[str, int]:
    """The lines of a checkpoint, read without our reader."""
    version, count, *lines = Path(directory, name).read_text("utf-8").splitlines()
    assert (version, int(count)) == ("0", len(lines))
    fields = [line.split() for line in lines]
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in fields}


def epoch_in(directory: Path) -> int:
    epoch: int = json.loads((directory / MARKER).read_text("utf-8"))["brokerEpoch"]
    return epoch


def directories_in(path: Path) -> list[str]:
    return sorted(found.name for found in path.iterdir() if found.is_dir())


def filled(manager: LogManager, **options: object) -> Log:
    log = manager.get_or_create_log(ORDERS, is_new=True, **options)  # type: ignore[arg-type]
    append(log, b"a", b"b", b"c")
    return log


def changes(log: Log) -> list[Callable[[], object]]:
    return [
        lambda: append(log, b"late"),
        lambda: log.append_as_follower(batch(b"late"), leader_epoch=0),
        log.flush,
        log.roll,
        log.delete_old_segments,
        lambda: log.truncate_to(1),
        lambda: log.truncate_fully_and_start_at(0),
        lambda: log.delete_records(2),
        lambda: log.increment_log_start_offset(2),
        lambda: log.assign_epoch_start_offset(7, 3),
        lambda: log.rename_directory(f"{log.directory}-again"),
    ]


def contents_of(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}
