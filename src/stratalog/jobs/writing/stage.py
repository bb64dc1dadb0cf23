"""Tasks write whole segments, with offsets that start at 0, as files in the log directory's root.

    stratalog-write-<write>.task                       exists until the write is committed or aborted
    stratalog-write-<write>-<attempt>-<number>.log     and .index, .timeindex beside it

The root is on the same file system as the logs, so a commit only renames files, and a broker ignores files
there. Only the base offset and the leader epoch of each batch depend on the place that a segment will have in
its log. Both are outside the checksum, and the offsets in an index count from the base of its segment. So
many tasks can finish segments at the same time, and `commit.py` only sets these two fields.

An attempt that fails deletes what it wrote. A killed attempt cannot, so the write's commit or abort deletes
all files of the write, the .task file first. An attempt that still runs, or starts later, checks for that
file before each segment and after the last one. If the file is gone, the attempt gives up and deletes its own
files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.directory.pending_write import STAGED_KINDS, staged_path
from stratalog.directory.write_journal import STAGED_PREFIX, Journal
from stratalog.errors import DiskError, UsageError
from stratalog.files.directories import make_directories
from stratalog.files.disk import Disk
from stratalog.files.names import FileKind, TopicPartition
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.jobs.writing.rows import PartitionRows, RowRouter
from stratalog.jobs.writing.target import TASK_SUFFIX, TopicTarget, WriteTarget
from stratalog.limits import INT32_MAX
from stratalog.records.batch import BatchHeader, set_base_offset
from stratalog.records.build import BatchOptions, build_batches
from stratalog.records.compression import Codec
from stratalog.records.kernels import index as kernel
from stratalog.records.walk import new_table
from stratalog.segment.offset_index import to_entries as to_offset_entries
from stratalog.segment.time_index import NO_TIMESTAMP
from stratalog.segment.time_index import to_entries as to_time_entries

# Rows of a partition wait until they have this many bytes: otherwise a Spark batch over many partitions would
# become many small batches.
ENOUGH_BYTES = 1 << 20
# Waiting rows are slices of an Arrow batch, and keep all of that batch in memory. This limit on all waiting
# bytes keeps a partition with few rows from holding all of a task's rows in memory.
MOST_BYTES = 64 << 20
ABANDONED_MS = 24 * 3_600_000
_TIME_ENTRY_SIZE = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A finished segment of one partition; its offsets count from 0."""

    topic_partition: TopicPartition
    staged: str
    size: int
    records_count: int


def begin_write(disk: Disk, directory: str, write: str) -> None:
    """Mark a write as under way, until it is committed or aborted; each of its tasks may call this.

    Creates the log directory if it does not exist.
    """
    path = _task_file(directory, write)
    make_directories(disk, directory)
    if not disk.exists(path):
        try:
            disk.create(path)
        except DiskError:
            if not disk.exists(path):  # no other task has created it yet
                raise


def stage_rows(
    disk: Disk,
    target: WriteTarget,
    batches: Iterable[pa.RecordBatch],
    *,
    write: str,
    attempt: str,
    turn: int,
    clock: Clock,
) -> list[Staged]:
    """Stage the rows of one task attempt; if it fails, its files are deleted.

    `write` names the whole write, which must have begun, `attempt` this attempt of the task, `turn` the task.
    UsageError if the write has ended meanwhile: another attempt was faster, or the write was aborted.
    """
    staging = _Staging(disk, target, write, attempt)
    router = RowRouter(target, first=turn)
    try:
        for batch in batches:
            now_ms = clock()
            for rows in router.split(batch, now_ms):
                staging.add(rows, now_ms)
        staged = staging.finish(clock())
        staging.check()
        return staged
    except BaseException:  # also for an interrupt: nobody needs these files
        staging.discard()
        raise


def discard_write(
    disk: Disk, directory: str, write: str, journal: Journal, *, but: str | None = None
) -> None:
    """Delete the staged files of a write, or of all writes whose names begin with a prefix.

    Files that the journal needs stay, and so do those of the write `but`.
    """
    needed = journal.staged_names()

    def discard(suffix: str) -> None:
        for entry in disk.list_directory(directory):
            is_meant = entry.name.startswith(STAGED_PREFIX + write) and entry.name.endswith(suffix)
            is_spared = but is not None and entry.name.startswith(STAGED_PREFIX + but)
            if is_meant and not is_spared and entry.name.partition(".")[0] not in needed:
                disk.delete(join_path(directory, entry.name))

    # The directory is listed again after the .task file is gone: an attempt deletes its own later files.
    discard(TASK_SUFFIX)
    discard("")


def has_staged(disk: DiskReader, directory: str, stream: str, *, but: str) -> bool:
    """Whether writes whose names begin with a prefix, except the write `but`, have staged files."""
    names = [entry.name for entry in disk.list_directory(directory)]
    return any(
        name.startswith(STAGED_PREFIX + stream) and not name.startswith(STAGED_PREFIX + but) for name in names
    )


def discard_abandoned(disk: Disk, directory: str, journal: Journal, now_ms: int) -> None:
    """Delete the staged files of writes that were idle for a day: their driver was killed."""
    needed = journal.staged_names()
    staged = [entry for entry in disk.list_directory(directory) if entry.name.startswith(STAGED_PREFIX)]
    heard_of: dict[str, int] = {}
    for entry in staged:
        write = _write_of(entry.name)
        heard_of[write] = max(heard_of.get(write, 0), entry.mtime_ms)
    for entry in staged:
        is_old = heard_of[_write_of(entry.name)] < now_ms - ABANDONED_MS
        if is_old and entry.name.partition(".")[0] not in needed:
            disk.delete(join_path(directory, entry.name))


def _write_of(name: str) -> str:
    """The write that a staged file belongs to, from its name."""
    return name.removeprefix(STAGED_PREFIX).partition(".")[0].partition("-")[0]


class _Staging:
    """The segments that one attempt writes, one at a time for each partition."""

    def __init__(self, disk: Disk, target: WriteTarget, write: str, attempt: str) -> None:
        self._disk = disk
        self._target = target
        self._write, self._attempt = write, attempt
        self._partitions: dict[TopicPartition, _StagedPartition] = {}
        self._names: list[str] = []
        self._added_size = 0

    def add(self, rows: PartitionRows, now_ms: int) -> None:
        found = self._partitions.get(rows.topic_partition)
        if found is None:
            found = _StagedPartition(self._disk, self._target, rows.topic, rows.topic_partition, self._name)
            self._partitions[rows.topic_partition] = found
        found.add(rows.rows, now_ms)
        self._added_size += rows.rows.nbytes
        if self._added_size >= MOST_BYTES:
            self._added_size = 0
            for partition in self._partitions.values():
                partition.write(now_ms)

    def finish(self, now_ms: int) -> list[Staged]:
        return [segment for found in self._partitions.values() for segment in found.finish(now_ms)]

    def discard(self) -> None:
        for name in self._names:
            for kind in STAGED_KINDS:
                self._disk.delete(staged_path(self._target.directory, name, kind))

    def check(self) -> None:
        """UsageError if the write has ended."""
        if not self._disk.exists(_task_file(self._target.directory, self._write)):
            raise UsageError(
                "this write has ended while one of its tasks was still running: the task writes nothing more."
            )

    def _name(self) -> str:
        """The name of a new segment, without suffix."""
        self.check()
        name = f"{STAGED_PREFIX}{self._write}-{self._attempt}-{len(self._names)}"
        self._names.append(name)
        return name


class _StagedPartition:
    """The segments of one partition, the last of them open."""

    def __init__(
        self,
        disk: Disk,
        target: WriteTarget,
        topic: TopicTarget,
        topic_partition: TopicPartition,
        make_name: Callable[[], str],
    ) -> None:
        self._disk = disk
        self._directory = target.directory
        self._sync = target.options.sync
        self._config = topic.config
        self._key = topic_partition
        self._codec, self._level = _codec_of(topic.config, target.options.codec)
        # Kafka: UnifiedLog.append refuses a set that no segment could hold.
        limits = (
            (topic.config.max_message_bytes, "max.message.bytes"),
            (topic.config.segment_size, "segment.bytes"),
        )
        self._limit, self._limit_name = min(limits)
        self._batch_size = min(target.options.batch_size, max(self._limit, 1))
        self._make_name = make_name
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_size = 0
        self._segment: _OpenSegment | None = None
        self._done: list[Staged] = []

    def add(self, rows: pa.RecordBatch, now_ms: int) -> None:
        self._waiting.append(rows)
        self._waiting_size += rows.nbytes
        if self._waiting_size >= ENOUGH_BYTES:
            self.write(now_ms)

    def finish(self, now_ms: int) -> list[Staged]:
        self.write(now_ms)
        self._close()
        return self._done

    def write(self, now_ms: int) -> None:
        """Encode the rows that wait."""
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting).combine_chunks()
        self._waiting, self._waiting_size = [], 0
        is_append_time = self._config.message_timestamp_type == "LogAppendTime"
        options = BatchOptions(
            codec=self._codec, level=self._level, log_append_time=now_ms if is_append_time else None
        )
        for batch in self._batches(table, options, self._batch_size):
            self._append(batch)

    def _batches(self, rows: pa.Table, options: BatchOptions, batch_size: int) -> Iterator[bytes]:
        """Batches within the topic's size limit. With a codec, data that does not compress becomes larger."""
        start = 0
        for batch in build_batches(rows, options, batch_size=batch_size):
            count = BatchHeader.unpack(batch).records_count
            if len(batch) > self._limit and count > 1:
                yield from self._batches(rows.slice(start, count), options, batch_size // 2)
            else:
                yield batch
            start += count

    def _append(self, batch: bytes) -> None:
        header = BatchHeader.unpack(batch)
        if len(batch) > self._limit:
            raise UsageError(
                f"a record for {self._key} makes a batch of {len(batch)} bytes, but the topic allows "
                f"{self._limit} ({self._limit_name})."
            )
        if self._segment is not None and not self._segment.has_room(len(batch), header.records_count):
            self._close()
        if self._segment is None:
            name = self._make_name()
            self._disk.create(staged_path(self._directory, name, FileKind.LOG))
            self._segment = _OpenSegment(self._disk, self._directory, name, self._config)
        self._segment.append(batch, header)

    def _close(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.close(sync=self._sync)
            self._done.append(
                Staged(
                    topic_partition=self._key,
                    staged=segment.name,
                    size=segment.size,
                    records_count=segment.records_count,
                )
            )


class _OpenSegment:
    """A segment that is being written. Its offsets count from 0 without a gap."""

    def __init__(self, disk: Disk, directory: str, name: str, config: LogConfig) -> None:
        self.name = name
        self.size = 0
        self.records_count = 0
        self._disk = disk
        self._directory = directory
        self._config = config
        self._rows: list[tuple[int, int, int, int]] = []  # position, size, last offset, largest timestamp
        # The limit of the time index, whose entries are larger than those of the offset index. One entry is
        # reserved for the close.
        self._entries_count = config.segment_index_bytes // _TIME_ENTRY_SIZE - 2

    def has_room(self, size: int, records_count: int) -> bool:
        entries_count = min(len(self._rows), self.size // max(self._config.index_interval_bytes, 1))
        return (
            self.size + size <= self._config.segment_size
            and self.records_count + records_count <= INT32_MAX
            and entries_count < self._entries_count
        )

    def append(self, batch: bytes, header: BatchHeader) -> None:
        # The builder did not know the batch's offset in the segment.
        placed = bytearray(batch)
        set_base_offset(placed, self.records_count)
        self._disk.write_at(staged_path(self._directory, self.name, FileKind.LOG), placed, self.size)
        self.records_count += header.records_count
        self._rows.append((self.size, len(batch), self.records_count - 1, header.max_timestamp))
        self.size += len(batch)

    def close(self, *, sync: bool) -> None:
        """Write the indexes, as a broker does when it closes a segment."""
        offsets, times = self._indexes()
        for kind, data in ((FileKind.OFFSET_INDEX, offsets), (FileKind.TIME_INDEX, times)):
            path = staged_path(self._directory, self.name, kind)
            self._disk.create(path)
            if data:
                self._disk.write_at(path, data, 0)
            if sync:
                self._disk.sync(path)
        if sync:
            self._disk.sync(staged_path(self._directory, self.name, FileKind.LOG))
        # A Spark worker may live long: it must not keep files open that will belong to a broker.
        for kind in STAGED_KINDS:
            self._disk.release(staged_path(self._directory, self.name, kind))

    def _indexes(self) -> tuple[bytes, bytes]:
        table = new_table(len(self._rows))
        columns = np.array(self._rows, np.int64).T
        for column, name in zip(columns, ("position", "size", "last_offset", "max_timestamp"), strict=True):
            table[name] = column
        progress = np.zeros(1, kernel.PROGRESS)
        progress[0] = (0, NO_TIMESTAMP, 0, -1, NO_TIMESTAMP, -1)
        room = len(self._rows)
        offset_entries, time_entries = np.empty((room, 2), np.int64), np.empty((room + 1, 2), np.int64)
        _, offsets_count, times_count, outcome = kernel.index_batches(
            table,
            0,
            0,
            self._config.index_interval_bytes,
            (room, room),
            progress,
            offset_entries,
            time_entries,
        )
        assert outcome == kernel.INDEXED, "offsets ascend, and there is a row for every batch"
        _, timestamp, offset, _, last_timestamp, _ = progress[0].item()
        if timestamp > last_timestamp:
            # Closing a segment adds its largest timestamp, whether an entry is due or not.
            time_entries[times_count] = (timestamp, offset)
            times_count += 1
        return (
            to_offset_entries(offset_entries[:offsets_count]).tobytes(),
            to_time_entries(time_entries[:times_count]).tobytes(),
        )


def _codec_of(config: LogConfig, wanted: str) -> tuple[Codec, int | None]:
    """The topic's codec and level if it has one, as a broker would recompress; else those of the write."""
    if config.compression_type == "producer":
        return Codec[wanted.upper()], None
    name = config.compression_type
    codec = Codec.NONE if name == "uncompressed" else Codec[name.upper()]
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    level = levels.get(codec)
    return codec, None if level == -1 else level


def _task_file(directory: str, write: str) -> str:
    return join_path(directory, f"{STAGED_PREFIX}{write}{TASK_SUFFIX}")
