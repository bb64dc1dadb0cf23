"""A log directory to load in a measurement; it can be made clean or unclean for each round."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stratalog.clock import system_clock
from stratalog.config import LogConfig
from stratalog.directory.clean_shutdown import NO_PROMISE
from stratalog.directory.clean_state import CleanState
from stratalog.files.disk import Disk
from stratalog.files.names import META_PROPERTIES, RECOVERY_POINT_CHECKPOINT, TopicPartition
from stratalog.log.checkpoint_file import OffsetCheckpointFile
from stratalog.log.loader import load
from stratalog.log.scheduler import BackgroundScheduler
from stratalog.records.batch import BatchHeader, set_base_offset
from stratalog.records.build import BatchOptions, Record, build_batch

TOPIC = "startup"
_RECORD_OVERHEAD = 9  # lengths and deltas of a record with a value of 100 bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The size of the directory and of its batches.

    `unflushed` is how many of the newest segments of each partition are above its recovery point after a
    power cut. A broker flushes a segment when it rolls to the next one, so usually this is 1.
    """

    partitions: int
    segments: int  # of each partition
    segment_size: int
    batch_size: int
    unflushed: int = 1

    @property
    def total_size(self) -> int:
        return self.total_segments * self.segment_size

    @property
    def total_segments(self) -> int:
        return self.partitions * self.segments


class StartupDirectory:
    """Partitions with equal logs in `path`, which must not exist yet."""

    def __init__(self, path: Path, shape: Shape) -> None:
        self.path, self.shape = path, shape
        self.config = LogConfig.of({"segment.bytes": max(shape.segment_size, 1 << 20)})
        self._disk = Disk()
        self._built = path.parent / f"{path.name}-built"  # the small files of a partition that was closed
        self._end_offset = 0

    def build(self, on_partition: Callable[[int], None] = lambda _number: None) -> None:
        """Write the first partition through a `Log`, and copy it for the others."""
        self.path.mkdir(parents=True)
        first = self.path / f"{TOPIC}-0"
        first.mkdir()
        self._write(first)
        on_partition(1)
        for number in range(1, self.shape.partitions):
            shutil.copytree(first, self.path / f"{TOPIC}-{number}")
            on_partition(number + 1)
        self.make_clean()

    def make_clean(self) -> None:
        """Leave what a clean shutdown leaves: trimmed indexes, a last snapshot, the clean-shutdown file."""
        self._restore()
        self._write_recovery_points(self._end_offset)
        CleanState(self._disk, str(self.path)).put_back(NO_PROMISE)

    def make_unclean(self) -> None:
        """Leave what a power cut leaves: no clean-shutdown file, no snapshot at the end, the newest indexes
        preallocated, and the newest segments above the recovery points."""
        self._restore()
        CleanState(self._disk, str(self.path)).discard()
        bases = sorted(int(log.stem) for log in (self.path / f"{TOPIC}-0").glob("*.log"))
        self._write_recovery_points(bases[-min(self.shape.unflushed, len(bases))])
        for folder in self._partitions():
            newest = max(folder.glob("*.log"))
            for suffix, entry_size in ((".index", 8), (".timeindex", 12)):
                size = self.config.segment_index_bytes // entry_size * entry_size
                os.truncate(newest.with_suffix(suffix), size)
            (folder / f"{self._end_offset:020d}.snapshot").unlink(missing_ok=True)
        (self.path / META_PROPERTIES).unlink(missing_ok=True)

    def remove(self) -> None:
        shutil.rmtree(self.path)
        shutil.rmtree(self._built)

    def logs(self) -> list[Path]:
        """All .log files."""
        return sorted(self.path.glob(f"{TOPIC}-*/*.log"))

    def _restore(self) -> None:
        """Give each partition its indexes and snapshots back, whatever the last load has made of them."""
        for folder in self._partitions():
            for file in self._built.iterdir():
                shutil.copyfile(file, folder / file.name)

    def _partitions(self) -> Iterator[Path]:
        return (self.path / f"{TOPIC}-{number}" for number in range(self.shape.partitions))

    def _write(self, folder: Path) -> None:
        scheduler = BackgroundScheduler()
        log = load(
            disk=self._disk,
            clock=system_clock,
            scheduler=scheduler,
            directory=folder,
            topic_partition=TopicPartition(TOPIC, 0),
            config=self.config,
        )
        batch = bytearray(_batch(self.shape.batch_size))
        count = BatchHeader.unpack(batch).records_count
        offset = 0
        for segment in range(self.shape.segments):
            if segment:
                log.roll()
            for data in _sets(batch, self.shape.segment_size, offset, count):
                offset = log.append_as_follower(data, leader_epoch=0).last_offset + 1
        self._end_offset = offset
        log.close()
        scheduler.close()
        self._built.mkdir()
        for suffix in (".index", ".timeindex", ".snapshot"):
            for file in folder.glob(f"*{suffix}"):
                shutil.copyfile(file, self._built / file.name)

    def _write_recovery_points(self, offset: int) -> None:
        file = OffsetCheckpointFile(self._disk, self.path / RECOVERY_POINT_CHECKPOINT)
        file.write({TopicPartition(TOPIC, number): offset for number in range(self.shape.partitions)})


def _batch(size: int) -> bytes:
    """A batch of about `size` bytes, with at least one record; each value has 100 bytes."""
    count = max(1, (size - 61) // (100 + _RECORD_OVERHEAD))
    now = system_clock()
    records = [Record(number, now, None, b"v" * 100) for number in range(count)]
    return build_batch(records, BatchOptions(partition_leader_epoch=0))


def _sets(batch: bytearray, size: int, offset: int, records_count: int) -> Iterator[bytes]:
    """Sets of batches of at most a megabyte each, together as close to `size` as whole batches allow."""
    left = max(1, size // len(batch))
    while left:
        parts = []
        for _ in range(min(left, max(1, (1 << 20) // len(batch)))):
            set_base_offset(batch, offset)
            parts.append(bytes(batch))
            offset += records_count
            left -= 1
        yield b"".join(parts)
