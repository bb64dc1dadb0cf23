"""What one Spark task reads: stretches of offsets, each with a hint where they lie.

The offsets are what counts. The hint says at which bytes of which file they were when the read was planned;
a reader proves it before it believes it, since a DataFrame plans once and is used many times: a broker may
have compacted, cut or removed the file meanwhile.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from stratalog.errors import CorruptIndexError, CorruptRecordError
from stratalog.files.entries import FileId, lasting_id
from stratalog.files.names import PARTITION_METADATA, FileKind, TopicPartition, segment_file_name
from stratalog.files.reading import DiskReader
from stratalog.jobs.reading.options import OnCorruption
from stratalog.limits import INT64_MIN
from stratalog.log.partition_metadata import PartitionMetadataFile, topic_id_to_text
from stratalog.records.compression import CODEC_MASK
from stratalog.records.kernels.index import LAST, OFFSET_AT_LEAST
from stratalog.records.reader import BatchRow
from stratalog.segment.headers import ReadInto, find_batch
from stratalog.segment.resuming import batch_at, indexed_batch
from stratalog.segment.segment import LogSegment

NO_OFFSET = -1

AbortedRange = tuple[int, int, int]
"""A producer's batches between two offsets, the second one its marker's, that were aborted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """Bytes [position, end_position) of a segment's file, and what proves that they are still there.

    Offsets that are not known, or need no proof, are -1.
    """

    file: int | None  # its lasting id; None where another file may have the name
    size: int | None  # of the whole file, where it is not appended to any more
    position: int
    end_position: int
    first_offset: int = NO_OFFSET  # base offset of the batch at `position`
    last_offset: int = NO_OFFSET  # last offset of the batch that ends at `end_position`
    next_offset: int = NO_OFFSET  # base offset of the batch at `end_position`


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The records of [start_offset, end_offset) of a partition, all in one segment when it was planned."""

    topic: str
    partition: int
    directory: str
    base_offset: int
    start_offset: int
    end_offset: int
    hint: Hint
    topic_id: str | None = None  # so that a topic of the same name that was made since is not taken for it
    aborted: tuple[AbortedRange, ...] = ()

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def path(self) -> str:
        return f"{self.directory}{os.sep}{segment_file_name(self.base_offset, FileKind.LOG)}"

    @property
    def size(self) -> int:
        """How many bytes it has, by its hint."""
        return self.hint.end_position - self.hint.position


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """What one Spark task reads, and how."""

    splits: tuple[Split, ...]
    include_control: bool = False
    on_corruption: OnCorruption = OnCorruption.FAIL
    fail_on_data_loss: bool = True


def topic_id_of(disk: DiskReader, directory: str) -> str | None:
    """The id of the topic that a partition belongs to, as Kafka prints it; None where none is kept."""
    topic_id = PartitionMetadataFile(disk, f"{directory}{os.sep}{PARTITION_METADATA}").read()
    return None if topic_id is None else topic_id_to_text(topic_id)


def cut(split: Split, offset: int, batch: BatchRow) -> tuple[Split, Split]:
    """The split before and from an offset on; `batch` is the first one that reaches the offset."""
    hint = split.hint
    if batch.base_offset >= offset and not is_wrapper(batch):
        left = replace(
            hint, end_position=batch.position, last_offset=NO_OFFSET, next_offset=batch.base_offset
        )
    else:  # both sides need this batch
        end = batch.position + batch.size
        left = replace(hint, end_position=end, last_offset=batch.last_offset, next_offset=NO_OFFSET)
    right = replace(hint, position=batch.position, first_offset=batch.base_offset)
    return (
        replace(
            split, end_offset=offset, hint=left, aborted=touching(split.aborted, split.start_offset, offset)
        ),
        replace(
            split, start_offset=offset, hint=right, aborted=touching(split.aborted, offset, split.end_offset)
        ),
    )


def touching(aborted: tuple[AbortedRange, ...], start: int, end: int) -> tuple[AbortedRange, ...]:
    """Those of the aborted ranges that reach into [start, end)."""
    return tuple(each for each in aborted if each[1] < end and each[2] >= start)


def is_proven(split: Split, file: FileId, size: int, read_into: ReadInto) -> bool:
    """Whether the file that is open now still has the split's batches at the bytes of its hint."""
    hint = split.hint
    if lasting_id(file) != hint.file or size < hint.end_position or hint.size not in (None, size):
        return False
    begins = hint.first_offset in (NO_OFFSET, _base_offset_at(read_into, hint.position, size, split.path))
    return begins and hint.next_offset in (
        NO_OFFSET,
        _base_offset_at(read_into, hint.end_position, size, split.path),
    )


def locate(segment: LogSegment, offset: int) -> BatchRow | None:
    """The first batch whose last offset is not below the offset; None if all are below.

    The index is asked first, and believed only if it leads to a batch that it can be about; otherwise the
    segment is walked from its first byte.
    """
    try:
        entry = segment.offset_index.lookup(offset)
        start = entry.position if entry.position and indexed_batch(segment, entry) is not None else 0
    except CorruptIndexError:
        start = 0
    return find_batch(segment.read_into, start, segment.size, OFFSET_AT_LEAST, offset, path=segment.log_path)


def split_point(segment: LogSegment, position: int) -> BatchRow | None:
    """The first batch at or behind a byte that the index names, proven; None where it names none."""
    try:
        entry = segment.offset_index.upper_bound(position)
    except CorruptIndexError:
        return None
    batch = None if entry is None else indexed_batch(segment, entry)
    return None if batch is None or is_wrapper(batch) else batch


def is_wrapper(batch: BatchRow) -> bool:
    """Whether it is a compressed message of an old format, which says its last offset only."""
    return batch.magic < 2 and batch.attributes & CODEC_MASK != 0


def check_whole(segment: LogSegment) -> None:
    """CorruptRecordError if the segment breaks off before its end: then it may have had what is not found."""
    last = find_batch(segment.read_into, 0, segment.size, LAST, 0, path=segment.log_path)
    end = 0 if last is None else last.position + last.size
    if end < segment.size:
        raise torn(segment.log_path, end, segment.size)


def torn(path: str, position: int, end: int) -> CorruptRecordError:
    """The error for a segment that nobody appends to, and that does not end with a batch."""
    reason = f"the segment goes on for {end - position} bytes, which are no whole batch."
    return CorruptRecordError(reason, position=position, path=path)


def _base_offset_at(read_into: ReadInto, position: int, end: int, path: str) -> int:
    batch = batch_at(read_into, position, end, path)
    return INT64_MIN if batch is None else batch.base_offset
