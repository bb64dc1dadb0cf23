"""Walks every segment of log directories: reads each batch header and checks each checksum.

The plan lists the segments. A task walks one, in bounded memory. The result is a few numbers for each
segment, and its unreadable ranges; `by_topic` adds them up. Nothing is written.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stratalog.directory.partitions import partition_entries
from stratalog.engine.engine import Engine, results_in_order
from stratalog.engine.progress import OnProgress
from stratalog.errors import CorruptRecordError, InvalidNameError
from stratalog.files.entries import ReadFile
from stratalog.files.names import (
    FileKind,
    FileState,
    TopicPartition,
    parse_segment_file,
)
from stratalog.files.reading import DiskReader
from stratalog.jobs.damage import Damage, DamageKind, merge_adjacent
from stratalog.log.log_end import only_zeros
from stratalog.records.batch import Attributes
from stratalog.records.columns import ColumnReader, wrong_crc
from stratalog.records.compression import CODEC_MASK, Codec
from stratalog.records.kernels.walk import BatchTable
from stratalog.records.walk import WalkStop, explain_stop, walk_batches
from stratalog.segment.headers import Part, walk_file


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkTask:
    """One segment to walk."""

    path: str
    topic: str
    partition: int
    base_offset: int
    size: int
    is_active: bool  # the last of its partition, which a crash may have torn


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentWalk:
    """The result of walking one segment. Offsets and timestamps are -1 if no batch could be read.

    `records_count` counts control records too. `first_timestamp` is the earliest first record of a batch; a
    later record in a batch may be earlier still.
    """

    path: str
    topic: str
    partition: int
    base_offset: int
    size: int
    batches_count: int
    records_count: int
    codecs: tuple[str, ...]
    first_offset: int
    last_offset: int
    first_timestamp: int
    last_timestamp: int
    damages: tuple[Damage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicWalk:
    """The segments of one topic, added up."""

    topic: str
    partitions_count: int
    segments_count: int
    size: int
    batches_count: int
    records_count: int
    codecs: tuple[str, ...]
    first_offset: int
    last_offset: int
    first_timestamp: int
    last_timestamp: int
    damages: tuple[Damage, ...]


def walk_logs(
    engine: Engine,
    disk: DiskReader,
    log_dirs: Iterable[str | os.PathLike[str]],
    *,
    on_progress: OnProgress | None = None,
) -> list[SegmentWalk]:
    """Walk every segment below the given log directories; results by topic, partition and base offset."""
    tasks = plan_walk(disk, log_dirs)
    sizes = [task.size for task in tasks]
    return results_in_order(engine.run(walk_segment, tasks, sizes=sizes, on_progress=on_progress))


def plan_walk(disk: DiskReader, log_dirs: Iterable[str | os.PathLike[str]]) -> list[WalkTask]:
    """A task for each .log file of each partition, by topic, partition and base offset.

    Folders that a broker is deleting, copying or does not know are left out, and so are files with other
    names: a stray file must not stop a command that only reads.
    """
    tasks = [
        task
        for log_dir in log_dirs
        for topic_partition, folder in _partitions(disk, Path(log_dir))
        for task in _segments(disk, topic_partition, folder)
    ]
    return sorted(tasks, key=lambda task: (task.topic, task.partition, task.base_offset, task.path))


def walk_segment(disk: DiskReader, task: WalkTask) -> SegmentWalk:
    """Walk one segment; it needs memory for one chunk, or for one batch if that is larger.

    A file that a live broker appends to is read up to the size it had at first.
    """
    tally = _Tally(task.path)
    damages: list[Damage] = []
    with disk.open_read(task.path) as file:
        size = disk.size(file)
        for part in walk_file(partial(disk.read_into, file), 0, size):
            damages += tally.add(part)
            damages += _wrong_checksums(task.path, part)
            if part.is_last and part.walk.stop is not WalkStop.END:
                damages.append(_broken_end(disk, file, task, part, size))
    return SegmentWalk(
        path=task.path,
        topic=task.topic,
        partition=task.partition,
        base_offset=task.base_offset,
        size=size,
        batches_count=tally.batches_count,
        records_count=tally.records_count,
        codecs=tally.codecs,
        first_offset=tally.first_offset,
        last_offset=tally.last_offset,
        first_timestamp=tally.first_timestamp,
        last_timestamp=tally.last_timestamp,
        damages=tuple(merge_adjacent(sorted(damages, key=lambda damage: damage.position))),
    )


def wake_worker(_disk: DiskReader, _task: int) -> None:
    """Load the walk's kernels, so that a worker's first real task does not wait for them."""
    walk_batches(b"")


def by_topic(segments: Iterable[SegmentWalk]) -> list[TopicWalk]:
    """One line for each topic, in the order of their names."""
    topics: defaultdict[str, list[SegmentWalk]] = defaultdict(list)
    for segment in segments:
        topics[segment.topic].append(segment)
    return [_topic(name, topics[name]) for name in sorted(topics)]


def _topic(topic: str, segments: Sequence[SegmentWalk]) -> TopicWalk:
    # A segment without a readable batch has -1 for its offsets and times, which are ignored.
    read = [segment for segment in segments if segment.first_offset >= 0]
    timed = [segment for segment in read if segment.first_timestamp >= 0]
    return TopicWalk(
        topic=topic,
        partitions_count=len({segment.partition for segment in segments}),
        segments_count=len(segments),
        size=sum(segment.size for segment in segments),
        batches_count=sum(segment.batches_count for segment in segments),
        records_count=sum(segment.records_count for segment in segments),
        codecs=tuple(sorted({codec for segment in segments for codec in segment.codecs})),
        first_offset=min((segment.first_offset for segment in read), default=-1),
        last_offset=max((segment.last_offset for segment in read), default=-1),
        first_timestamp=min((segment.first_timestamp for segment in timed), default=-1),
        last_timestamp=max((segment.last_timestamp for segment in timed), default=-1),
        damages=tuple(damage for segment in segments for damage in segment.damages),
    )


def _partitions(disk: DiskReader, log_dir: Path) -> Iterator[tuple[TopicPartition, Path]]:
    for entry in partition_entries(disk.list_directory(log_dir)):
        yield entry.topic_partition, log_dir / entry.name


def _segments(disk: DiskReader, topic_partition: TopicPartition, folder: Path) -> Iterator[WalkTask]:
    found = [entry for entry in disk.list_directory(folder) if _is_log(entry.name)]
    for number, entry in enumerate(found, start=1):
        yield WalkTask(
            path=str(folder / entry.name),
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            base_offset=int(entry.name.partition(".")[0]),
            size=entry.size,
            is_active=number == len(found),
        )


def _is_log(name: str) -> bool:
    try:
        file = parse_segment_file(name)
    except InvalidNameError:
        return False
    return file is not None and file.kind is FileKind.LOG and file.state is FileState.LIVE


class _Tally:
    """The sums over the batches whose checksum matches."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.batches_count = self.records_count = 0
        self.first_offset = self.last_offset = self.first_timestamp = self.last_timestamp = -1
        self._codecs = 0

    def add(self, part: Part) -> list[Damage]:
        """Count a part's batches; returns those whose checksum matches but whose records cannot be read."""
        good = part.walk.headers[part.walk.headers["valid"]]
        if not len(good):
            return []
        self.batches_count += len(good)
        self.records_count += int(np.maximum(good["records_count"], 0).sum())
        self._see_offsets(int(good["base_offset"][0]), int(good["last_offset"].max()))
        self._see_times(good)
        for number in np.unique(good["attributes"] & CODEC_MASK):
            self._codecs |= 1 << int(number)
        return [damage for row in good[good["records_count"] < 0] for damage in self._unpack(part, row)]

    def _see_offsets(self, first: int, last: int) -> None:
        self.first_offset = first if self.first_offset < 0 else min(self.first_offset, first)
        self.last_offset = max(self.last_offset, last)

    def _see_times(self, good: BatchTable) -> None:
        # With LogAppendTime all records have the batch's largest timestamp, and a delete horizon replaces the
        # base timestamp; in both cases the largest is used for both. Magic 1 has only the LogAppendTime bit,
        # magic 0 has neither.
        overruled = good["attributes"] & (Attributes.LOG_APPEND_TIME | Attributes.DELETE_HORIZON) != 0
        self._see_first_times(np.where(overruled, good["max_timestamp"], good["base_timestamp"]))
        self.last_timestamp = max(self.last_timestamp, int(good["max_timestamp"].max()))

    def _see_first_times(self, times: NDArray[np.int64]) -> None:
        # An emptied batch has -1 here, and so does every message of magic 0.
        known = times[times >= 0]
        if known.size:
            earliest = int(known.min())
            self.first_timestamp = (
                earliest if self.first_timestamp < 0 else min(self.first_timestamp, earliest)
            )

    def _unpack(self, part: Part, row: np.void) -> Iterator[Damage]:
        """Unpack a compressed message of an old format, which only then shows its count and first offset."""
        start, size = int(row["position"]), int(row["size"])
        reader = ColumnReader(columns=["offset", "timestamp"], check_crc=False)
        try:
            for records in reader.read(part.data, start=start, end=start + size):
                self.records_count += records.num_rows
                self._see_offsets(records.column(0)[0].as_py(), int(row["last_offset"]))
                self._see_first_times(records.column(1).cast("int64").to_numpy() // 1000)
        except CorruptRecordError as error:
            yield Damage(
                path=self._path,
                position=part.position + start,
                kind=DamageKind.INVALID_RECORDS,
                reason=error.reason,
                lost_size=size,
            )

    @property
    def codecs(self) -> tuple[str, ...]:
        """Kafka's names of the codecs seen, in the order of their numbers."""
        return tuple(codec.kafka_name for codec in Codec if self._codecs >> codec & 1)


def _wrong_checksums(path: str, part: Part) -> Iterator[Damage]:
    headers = part.walk.headers
    for row in headers[~headers["valid"]]:
        yield Damage(
            path=path,
            position=part.position + int(row["position"]),
            kind=DamageKind.WRONG_CRC,
            reason=wrong_crc(part.data, row).reason,
            lost_size=int(row["size"]),
        )


def _broken_end(disk: DiskReader, file: ReadFile, task: WalkTask, part: Part, size: int) -> Damage:
    """The damage from the first byte that is not a batch to the end of the file.

    Only the active segment can be torn: in any other, a batch that seems torn has a damaged length.
    """
    at = part.walk.next_position
    position = part.position + at
    kind = _KINDS[part.walk.stop]
    reason = explain_stop(part.data, at, at + size - position, part.walk.stop)
    if kind is DamageKind.BAD_LENGTH and only_zeros(partial(disk.read_into, file), position, size):
        kind = DamageKind.ZEROS
    if kind is DamageKind.TORN_TAIL and not task.is_active:
        kind = DamageKind.BAD_LENGTH
    return Damage(path=task.path, position=position, kind=kind, reason=reason, lost_size=size - position)


_KINDS = {
    WalkStop.TORN_TAIL: DamageKind.TORN_TAIL,
    WalkStop.BAD_LENGTH: DamageKind.BAD_LENGTH,
    WalkStop.BAD_MAGIC: DamageKind.BAD_MAGIC,
}
