"""The strategies of `stratalog bench startup`: two of Kafka's releases, two of an article, and ours.

Nothing else uses this. The first four do with files what Kafka does, with our scan instead of Java's
(`kafka_load.py`). So they show what is read, how often and in which order, but not how fast Java is.

kafka-2.1   every index is mapped, then checked; a preallocated time index always fails the check, and
            its segment is scanned; then unflushed segments are scanned, including that segment again
lazy        no index is mapped or checked; unflushed segments are scanned (Kafka from 2.3 on)
dedupe      as kafka-2.1, but no segment is scanned twice
checked     as kafka-2.1, but with a check that distinguishes zeros from entries
stratalog   `recover_directories`, then LogManager: no segment is scanned twice, those of one log in parallel;
            unlike Kafka 2.1 it syncs all that it writes
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median

from stratalog.buffers import aligned_buffer
from stratalog.cli.startup.counting import CountingDisk
from stratalog.cli.startup.kafka_load import IndexCheckKind, KafkaLoad, Strategy
from stratalog.config import LogConfig
from stratalog.directory.checkpoints import DirectoryCheckpoints
from stratalog.directory.clean_shutdown import CleanShutdownFile
from stratalog.directory.layout import PartitionEntry, classify
from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.recover import recover_directories
from stratalog.engine.devices import busy_ms, device_of
from stratalog.files.disk import Disk
from stratalog.files.names import FileKind
from stratalog.files.paths import join_path
from stratalog.manager.manager import LogManager
from stratalog.segment.scan import SCAN_SIZE

STRATEGIES = (
    Strategy("kafka-2.1", True, IndexCheckKind.KAFKA_2, False),
    Strategy("lazy", False, IndexCheckKind.NONE, True),
    Strategy("dedupe", True, IndexCheckKind.KAFKA_2, True),
    Strategy("checked", True, IndexCheckKind.RIGHT, False),
    Strategy("stratalog", False, IndexCheckKind.RIGHT, True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMeasurement:
    """One load: its time, what it read, wrote and synced, and how often it read each segment completely.

    `partition_seconds` is the median of the partitions' own times, None if they are not loaded one by one.
    `busy` is the fraction of the time in which the device was busy, None if the system does not count that.
    Of a real broker only the times are known.
    """

    seconds: float
    partition_seconds: float | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    syncs: int | None = None
    busy: float | None = None
    scans: Counter[str] | None = None

    def scanned(self, at_least: int) -> int | None:
        """How many segments were read this often, or more often."""
        return None if self.scans is None else sum(times >= at_least for times in self.scans.values())


def load_by(strategy: Strategy, directory: str, *, readers: int, config: LogConfig) -> LoadMeasurement:
    """Load a log directory with this strategy and measure it; changes the directory as the strategy does."""
    disk, plain = CountingDisk(), Disk()
    partitions = classify(plain, directory).partitions
    device = device_of(plain, directory)
    folders = [join_path(directory, partition.name) for partition in partitions]
    sizes = {
        join_path(folder, name): size
        for folder in folders
        for name, size in plain.list_sizes(folder, FileKind.LOG.value).items()
    }
    manager: LogManager | None = None
    times: list[float] = []
    busy_before, began = busy_ms(device), time.perf_counter()
    if strategy.name == "stratalog":
        if not CleanShutdownFile(disk, directory).exists():
            recover_directories([directory], disk=disk, options=RecoveryChoices(readers=readers))
        manager = LogManager([directory], disk=disk)
        manager.startup()
    else:
        times = _load_as_kafka(strategy, directory, partitions, disk, readers, config)
    seconds = time.perf_counter() - began
    busy_after = busy_ms(device)
    loading = LoadMeasurement(
        seconds=seconds,
        partition_seconds=median(times) if times else None,
        bytes_read=disk.bytes_read,
        bytes_written=disk.bytes_written,
        syncs=disk.syncs,
        busy=_fraction(busy_before, busy_after, seconds),
        scans=disk.scans(sizes),
    )
    if manager is not None:
        manager.shutdown()
    return loading


def _fraction(before_ms: int | None, after_ms: int | None, seconds: float) -> float | None:
    if before_ms is None or after_ms is None:
        return None
    return min(1.0, (after_ms - before_ms) / 1000 / seconds)


def _load_as_kafka(
    strategy: Strategy,
    directory: str,
    partitions: tuple[PartitionEntry, ...],
    disk: CountingDisk,
    readers: int,
    config: LogConfig,
) -> list[float]:
    """One job for each partition, in a pool of threads, as in LogManager.loadLogs; returns their times."""
    had_clean_shutdown = CleanShutdownFile(disk, directory).exists()
    points = DirectoryCheckpoints(disk, directory).recovery_points.read()
    reused = threading.local()

    def load(partition: PartitionEntry) -> float:
        began = time.perf_counter()
        if not hasattr(reused, "buffer"):
            reused.buffer = aligned_buffer(SCAN_SIZE)
        KafkaLoad(
            strategy,
            disk,
            join_path(directory, partition.name),
            config,
            recovery_point=None if had_clean_shutdown else points.get(partition.topic_partition, 0),
            buffer=reused.buffer,
        ).run()
        return time.perf_counter() - began

    with ThreadPoolExecutor(readers) as pool:
        return list(pool.map(load, partitions))
