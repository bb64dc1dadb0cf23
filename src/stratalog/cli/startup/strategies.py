"""The strategies by which Kafka has loaded a log directory over the years, for `stratalog bench startup`.

Nothing else uses this. Each strategy makes the same reads as Kafka did, with our readers in place of Kafka's:
it measures how much is read, how often and in which order. Indexes are rebuilt in memory and compared, never
written, so that every strategy finds the same directory.

kafka-2.1   every index is read, then checked: a time index that is preallocated always fails, and its
            segment is scanned; what is not flushed is scanned afterwards, the same segment again
lazy        no index is read or checked; what is not flushed is scanned (Kafka from 2.3 on)
dedupe      as kafka-2.1, but what was scanned once is not scanned again
checked     as kafka-2.1, but with a check that can tell zeros from entries
stratalog   `recover_directories`, then LogManager: each segment once, the segments of one log in parallel
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from stratalog.buffers import aligned_buffer
from stratalog.config import LogConfig
from stratalog.directory.checkpoints import DirectoryCheckpoints
from stratalog.directory.clean_shutdown import CleanShutdownFile
from stratalog.directory.layout import PartitionEntry, classify
from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.recover import recover_directories
from stratalog.errors import CorruptIndexError
from stratalog.files.disk import Disk
from stratalog.files.entries import EntryKind, ExpectedFile, Path, ReadFile
from stratalog.files.names import FileKind, FileState, parse_segment_file
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.manager.manager import LogManager
from stratalog.segment.sanity import sanity_check
from stratalog.segment.scan import SCAN_SIZE, scan_segment
from stratalog.segment.segment_reader import SegmentReader

if TYPE_CHECKING:
    from stratalog.files.disk import Target

_TIME_ENTRY, _OFFSET_ENTRY = 12, 8


class IndexCheckKind(Enum):
    """How an index is checked before it is trusted."""

    NONE = "none"
    KAFKA_2 = "Kafka 2.1's, for which zeros are entries"
    RIGHT = "a right one"


class Strategy(NamedTuple):
    """One way of loading. `scans_once`: a segment that failed its check is not scanned again."""

    name: str
    reads_indexes: bool
    check: IndexCheckKind
    scans_once: bool


STRATEGIES = (
    Strategy("kafka-2.1", True, IndexCheckKind.KAFKA_2, False),
    Strategy("lazy", False, IndexCheckKind.NONE, True),
    Strategy("dedupe", True, IndexCheckKind.KAFKA_2, True),
    Strategy("checked", True, IndexCheckKind.RIGHT, False),
    Strategy("stratalog", False, IndexCheckKind.RIGHT, True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMeasurement:
    """The time of one load, the bytes it read, and how often it read each segment from start to end."""

    seconds: float
    bytes_read: int
    scans: Counter[str]

    @property
    def scanned_twice(self) -> int:
        """How many segments were read more than once."""
        return sum(count > 1 for count in self.scans.values())


class CountingDisk(Disk):
    """Counts the bytes of .log files that are read, by file."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self.log_bytes: Counter[str] = Counter()
        self.bytes_read = 0

    def read_into(
        self, source: ReadFile | Path, buffer: Target, position: int, identity: ExpectedFile | None = None
    ) -> int:
        count = super().read_into(source, buffer, position, identity)
        self._count(source.path if isinstance(source, ReadFile) else os.fspath(source), count)
        return count

    def read_at(self, path: Path, size: int, position: int, identity: ExpectedFile | None = None) -> bytes:
        data = super().read_at(path, size, position, identity)
        self._count(os.fspath(path), len(data))
        return data

    def scans(self, sizes: dict[str, int]) -> Counter[str]:
        """How often each file was read from start to end."""
        return Counter({path: self.log_bytes[path] // size for path, size in sizes.items() if size})

    def _count(self, path: str, size: int) -> None:
        with self._lock:
            self.bytes_read += size
            if path.endswith(FileKind.LOG.value):
                self.log_bytes[path] += size


def load_by(strategy: Strategy, directory: str, *, readers: int, config: LogConfig) -> LoadMeasurement:
    """Load a log directory by this strategy and measure it. Only the strategy `stratalog` changes it."""
    disk = CountingDisk()
    plain = Disk()
    partitions = classify(plain, directory).partitions
    sizes = {
        join_path(folder, entry.name): entry.size
        for folder in (join_path(directory, partition.name) for partition in partitions)
        for entry in plain.list_directory(folder)
        if entry.kind is EntryKind.FILE
    }
    manager: LogManager | None = None
    began = time.perf_counter()
    if strategy.name == "stratalog":
        if not CleanShutdownFile(disk, directory).exists():
            recover_directories([directory], disk=disk, options=RecoveryChoices(readers=readers))
        manager = LogManager([directory], disk=disk)
        manager.startup()
    else:
        _load_as_kafka(strategy, directory, partitions, disk, readers, config)
    seconds = time.perf_counter() - began
    loading = LoadMeasurement(
        seconds=seconds,
        bytes_read=disk.bytes_read,
        scans=disk.scans({path: size for path, size in sizes.items() if path.endswith(".log")}),
    )
    if manager is not None:
        manager.shutdown()
    return loading


def _load_as_kafka(
    strategy: Strategy,
    directory: str,
    partitions: tuple[PartitionEntry, ...],
    disk: CountingDisk,
    readers: int,
    config: LogConfig,
) -> None:
    """One job for each partition, in a pool of `threads` threads, as in LogManager.loadLogs."""
    had_clean_shutdown = CleanShutdownFile(disk, directory).exists()
    points = DirectoryCheckpoints(disk, directory).recovery_points.read()
    reused = threading.local()

    def load(partition: PartitionEntry) -> None:
        if not hasattr(reused, "buffer"):
            reused.buffer = aligned_buffer(SCAN_SIZE)
        segments = _segments(disk, join_path(directory, partition.name), config)

        def scan(segment: SegmentReader) -> None:
            scan_segment(
                disk,
                segment.log_path,
                segment.base_offset,
                index_interval_bytes=config.index_interval_bytes,
                buffer=reused.buffer,
            )

        done = _check_indexes(strategy, disk, segments, scan)
        if not had_clean_shutdown:
            for segment in _unflushed(segments, points.get(partition.topic_partition, 0)):
                if not (strategy.scans_once and segment.base_offset in done):
                    scan(segment)

    with ThreadPoolExecutor(readers) as pool:
        list(pool.map(load, partitions))


def _segments(disk: DiskReader, folder: str, config: LogConfig) -> list[SegmentReader]:
    found = []
    for entry in disk.list_directory(folder):
        file = parse_segment_file(entry.name)
        if file is not None and file.kind is FileKind.LOG and file.state is FileState.LIVE:
            found.append(SegmentReader(disk, folder, file.offset, config, size=entry.size))
    return found


def _check_indexes(
    strategy: Strategy, disk: DiskReader, segments: list[SegmentReader], scan: Callable[[SegmentReader], None]
) -> set[int]:
    """Read and check the indexes as this strategy does; returns the segments that it scanned for that."""
    scanned = set()
    for segment in segments:
        if strategy.reads_indexes:
            for path in (segment.offset_index.path, segment.time_index.path):
                disk.read_at(path, disk.size(path), 0)
        is_good = True
        if strategy.check is IndexCheckKind.KAFKA_2:
            is_good = _passes_kafka_2(disk, segment)
        elif strategy.check is IndexCheckKind.RIGHT:
            try:
                sanity_check(segment)
            except CorruptIndexError:
                is_good = False
        if not is_good:
            scan(segment)
            scanned.add(segment.base_offset)
    return scanned


def _passes_kafka_2(disk: DiskReader, segment: SegmentReader) -> bool:
    """Kafka 2.1's OffsetIndex.sanityCheck and TimeIndex.sanityCheck: every slot of the file is an entry."""
    # The rest of Kafka's check of the offset index cannot fail: it adds the base offset to both sides.
    if disk.size(segment.offset_index.path) % _OFFSET_ENTRY:
        return False
    path = segment.time_index.path
    size = disk.size(path)
    if size % _TIME_ENTRY:
        return False
    if not size:
        return True
    first = disk.read_at(path, _TIME_ENTRY, 0)
    final = disk.read_at(path, _TIME_ENTRY, size - _TIME_ENTRY)
    return int.from_bytes(final[:8], "big", signed=True) >= int.from_bytes(first[:8], "big", signed=True)


def _unflushed(segments: list[SegmentReader], recovery_point: int) -> list[SegmentReader]:
    """The segments from the one with the recovery point on: at least the last one."""
    below = [number for number, segment in enumerate(segments) if segment.base_offset <= recovery_point]
    return segments[below[-1] if below else 0 :]
