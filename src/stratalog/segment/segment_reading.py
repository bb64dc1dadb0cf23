"""What is read from a segment: ranges for a fetch, batches, offsets by time; and whether its indexes fit it.

Nothing here changes a file, and any number of threads may do it. Kafka: LogSegment.read, FileRecords
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stratalog.errors import CorruptIndexError, CorruptRecordError, UsageError
from stratalog.limits import INT64_MIN
from stratalog.records.kernels import index as kernel
from stratalog.records.kernels.memory import byte_array
from stratalog.records.kernels.walk import CODEC_MASK
from stratalog.records.reader import BatchRow, read_batches
from stratalog.segment.headers import BatchChunk, find_batch, stream_batches
from stratalog.segment.search import TimestampAndOffset, find_record
from stratalog.segment.segment_files import SegmentFiles
from stratalog.segment.txn_index import AbortedTxn


class OffsetPosition(NamedTuple):
    """The batch that holds an offset, or the first one behind it, and where it is in the file."""

    base_offset: int
    last_offset: int
    position: int
    size: int


class FetchedRange(NamedTuple):
    """What a read gives: bytes [position, position + size) of the file, which start with a whole batch.

    `base_offset` is the first batch's. The range may end inside a batch; `first_entry_incomplete` says that
    it ends inside the first one.
    """

    base_offset: int
    position: int
    size: int
    first_entry_incomplete: bool


class ReadableSegment(SegmentFiles):
    """The files of a segment as a reader sees them."""

    __slots__ = ()

    def translate_offset(self, offset: int, starting_position: int = 0) -> OffsetPosition | None:
        """The first batch, at or behind starting_position, whose last offset is not below the given one."""
        start, reach = self.offset_index.span(offset, ahead=1)
        batch = self._find(max(start, starting_position), kernel.OFFSET_AT_LEAST, offset, reach)
        if batch is None:
            return None
        return OffsetPosition(self._first_offset(batch), batch.last_offset, batch.position, batch.size)

    def read(
        self,
        start_offset: int,
        max_size: int,
        *,
        max_position: int | None = None,
        min_one_message: bool = False,
    ) -> FetchedRange | None:
        """The range to read from the batch that holds start_offset on; None if all offsets are below it.

        It ends before max_position, which is the segment's size unless given; a range that would start there
        or behind is empty. With min_one_message it has all of the first batch, whatever max_size says.
        """
        if max_size < 0:
            raise UsageError(f"max_size {max_size} is below 0.")
        end = self.size if max_position is None else min(max_position, self.size)
        start = self.translate_offset(start_offset)
        if start is None:
            return None
        adjusted = max(max_size, start.size) if min_one_message else max_size
        size = max(0, min(end - start.position, adjusted))
        return FetchedRange(start.base_offset, start.position, size, 0 < adjusted < start.size)

    def batches(
        self, start_position: int = 0, end_position: int | None = None, *, check_crc: bool = False
    ) -> Iterator[BatchChunk]:
        """The batches from a position on, chunk by chunk, in memory that is used again for the next one.

        A torn tail is the end; what is no batch, or with check_crc a wrong checksum, a CorruptRecordError.
        """
        end = self.size if end_position is None else min(end_position, self.size)
        return stream_batches(self.read_into, start_position, end, path=self.log_path, check_crc=check_crc)

    def read_next_offset(self) -> int:
        """The offset behind the last whole batch; the base offset where there is none."""
        last = self.offset_index.last_entry
        if last.position and last.position >= self.size:
            raise CorruptIndexError(
                self.offset_index.path,
                f"its last entry points at byte {last.position}; the log has {self.size} bytes.",
            )
        batch = self._find(last.position, kernel.LAST, 0)
        return self.base_offset if batch is None else batch.last_offset + 1

    def find_offset_by_timestamp(self, timestamp: int, start_offset: int) -> TimestampAndOffset | None:
        """The first record from start_offset on that is not before the timestamp."""
        entry = self.time_index.lookup(timestamp)
        return self._find_record(max(entry.offset, start_offset), timestamp, start_offset)

    def fetch_upper_bound_offset(self, position: int, size: int) -> int | None:
        """An offset that no record in these bytes has or exceeds; None where the index does not say.

        Kafka: LogSegment.fetchUpperBoundOffset
        """
        entry = self.offset_index.upper_bound(position + size)
        return None if entry is None else entry.offset

    def collect_aborted(self, fetch_offset: int, upper_bound: int) -> tuple[list[AbortedTxn], bool]:
        """The aborted transactions that touch [fetch_offset, upper_bound), and whether these are all."""
        return self.txn_index.collect(fetch_offset, upper_bound)

    def sanity_check(self) -> None:
        """CorruptIndexError unless the indexes can be this log's; the bodies of batches are not read.

        Entries are told from the zeros behind them, must ascend and lie inside the log, and the last one must
        point at a batch that it can be about. A log with batches must have an offset index.
        """
        self._check_offset_index()
        if self.time_index.exists:
            self.time_index.sanity_check(self.read_next_offset() - 1)
        self.txn_index.sanity_check()

    def _check_offset_index(self) -> None:
        index = self.offset_index
        if not index.exists:
            if self.size:
                raise CorruptIndexError(index.path, "the file is missing.")
            return
        index.sanity_check(self.size)
        last = index.last_entry
        try:
            batch = self._find(last.position, kernel.OFFSET_AT_LEAST, INT64_MIN) if last.position else None
        except CorruptRecordError as error:
            raise CorruptIndexError(index.path, f"its last entry points at no batch: {error}") from error
        if last.position and (batch is None or not batch.base_offset <= last.offset):
            found = "none" if batch is None else f"one that starts with {batch.base_offset}"
            raise CorruptIndexError(
                index.path, f"its last entry is about offset {last.offset}; the batch there is {found}."
            )

    def _find(self, start: int, kind: int, target: int, reach: int = 0) -> BatchRow | None:
        return find_batch(self.read_into, start, self.size, kind, target, path=self.log_path, reach=reach)

    def _find_record(self, from_offset: int, timestamp: int, start_offset: int) -> TimestampAndOffset | None:
        """The first record not before a time, looked for from the index entry of an offset on."""
        # The entry is that of a batch before the time; the next may be the wanted one's, which ends before
        # the one behind that.
        start, reach = self.offset_index.span(from_offset, ahead=2)
        return find_record(
            self.read_into,
            self._find,
            self.read_bytes,
            start=start,
            reach=min(reach, self.size),
            timestamp=timestamp,
            start_offset=start_offset,
        )

    def _first_offset(self, batch: BatchRow) -> int:
        """A compressed message of an old format has its first offset inside."""
        if batch.magic == 2 or batch.attributes & CODEC_MASK == 0:
            return batch.base_offset
        data = self.read_bytes(batch.position, batch.size)
        return next(iter(next(read_batches(byte_array(data), check_crc=False)))).offset
