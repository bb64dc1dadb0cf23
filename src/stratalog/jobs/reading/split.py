"""What one task reads: ranges of offsets, each with a hint that says where their bytes are.

The offsets decide what is read. The hint says in which bytes of which file they were when the read was
planned. A reader checks the hint before using it: a DataFrame is planned once and used many times, and a
broker may have compacted, cut or removed the file meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stratalog.errors import CorruptCheckpointError, CorruptIndexError, DiskError
from stratalog.files.entries import FileId, lasting_id
from stratalog.files.names import PARTITION_METADATA, FileKind, TopicPartition, segment_file_name
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.jobs.reading.options import OnCorruption
from stratalog.limits import INT64_MIN
from stratalog.log.partition_metadata import PartitionMetadataFile, topic_id_to_text
from stratalog.records.compression import CODEC_MASK
from stratalog.records.kernels.index import LAST, OFFSET_AT_LEAST
from stratalog.records.reader import BatchRow
from stratalog.segment.headers import ReadInto, find_batch
from stratalog.segment.resuming import batch_at, indexed_batch, torn
from stratalog.segment.segment_reader import SegmentReader

NO_OFFSET = -1

AbortedRange = tuple[int, int, int]
"""An aborted transaction: the producer's id, its first offset, and the offset of its marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """Bytes [position, end_position) of a segment's file, and what proves that they are still there.

    Offsets that are not known, or need no proof, are -1.
    """

    file: str | None  # the file's lasting id; None if another file may have taken the name
    size: int | None  # of the whole file, if it no longer grows
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
    topic_id: str | None = None  # distinguishes a topic from a newer one of the same name
    aborted: tuple[AbortedRange, ...] = ()

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def path(self) -> str:
        return join_path(self.directory, segment_file_name(self.base_offset, FileKind.LOG))

    @property
    def size(self) -> int:
        """The number of bytes in the hint."""
        return self.hint.end_position - self.hint.position


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """What one task reads, and how."""

    splits: tuple[Split, ...]
    include_control: bool = False
    on_corruption: OnCorruption = OnCorruption.FAIL
    fail_on_data_loss: bool = True


def topic_id_of(disk: DiskReader, directory: str) -> str | None:
    """The id of the topic that a partition belongs to, as Kafka prints it.

    None if the directory has none, or if its partition.metadata is damaged or unreadable: the records can be
    read all the same, and `doctor` and `audit` report the file.
    """
    try:
        topic_id = PartitionMetadataFile(disk, join_path(directory, PARTITION_METADATA)).read()
    except (CorruptCheckpointError, DiskError):
        return None
    return None if topic_id is None else topic_id_to_text(topic_id)


def cut(split: Split, offset: int, batch: BatchRow) -> tuple[Split, Split]:
    """The split, cut in two at an offset; `batch` is the first batch that reaches the offset."""
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
    """The aborted ranges that overlap [start, end)."""
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


def locate(segment: SegmentReader, offset: int) -> BatchRow | None:
    """The first batch whose last offset is not below the offset; None if all are below.

    The index is used if it leads to a batch that matches its entry; otherwise the segment is walked from its
    first byte.
    """
    try:
        entry = segment.offset_index.lookup(offset)
        start = entry.position if entry.position and indexed_batch(segment, entry) is not None else 0
    except CorruptIndexError:
        start = 0
    return find_batch(segment.read_into, start, segment.size, OFFSET_AT_LEAST, offset, path=segment.log_path)


def split_point(segment: SegmentReader, position: int) -> BatchRow | None:
    """The batch of the first index entry at or after a byte.

    None if there is no entry, if it does not lead to its batch, or if the batch is a wrapper.
    """
    try:
        entry = segment.offset_index.upper_bound(position)
    except CorruptIndexError:
        return None
    batch = None if entry is None else indexed_batch(segment, entry)
    return None if batch is None or is_wrapper(batch) else batch


def is_wrapper(batch: BatchRow) -> bool:
    """Whether the batch is a compressed message of an old format, whose header has only the last offset."""
    return batch.magic < 2 and batch.attributes & CODEC_MASK != 0


def check_whole(segment: SegmentReader) -> None:
    """CorruptRecordError if the segment has damage before its end, which may hide the missing offsets."""
    last = find_batch(segment.read_into, 0, segment.size, LAST, 0, path=segment.log_path)
    end = 0 if last is None else last.position + last.size
    if end < segment.size:
        raise torn(segment.log_path, end, segment.size)


def _base_offset_at(read_into: ReadInto, position: int, end: int, path: str) -> int:
    batch = batch_at(read_into, position, end, path)
    return INT64_MIN if batch is None else batch.base_offset
