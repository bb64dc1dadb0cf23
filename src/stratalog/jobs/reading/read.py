"""Reads a task's records as Arrow batches: only the requested columns, in sizes that suit Spark.

A split is read where its hint says, if the file still matches the hint. If not, because a broker has
compacted, cut, rolled or removed the file since, the offsets of the split are searched. Offsets that are not
found are data loss. Every checksum is checked. Columns that were not requested are not copied.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stratalog.buffers import aligned_buffer
from stratalog.clock import system_clock
from stratalog.config import LogConfig
from stratalog.directory.partitions import FoundPartition
from stratalog.directory.views import open_view
from stratalog.errors import CorruptRecordError, DiskError, OffsetOutOfRangeError
from stratalog.files.disk import ReadFile
from stratalog.files.names import TopicPartition
from stratalog.files.reading import DiskReader
from stratalog.files.storage import reader_for
from stratalog.jobs.reading.arrow import assembled, placed, without_columns
from stratalog.jobs.reading.omissions import Gaps, OnOmission, ignore_omission
from stratalog.jobs.reading.options import OnCorruption
from stratalog.jobs.reading.seen import SeenBatches
from stratalog.jobs.reading.split import (
    ReadTask,
    Split,
    is_proven,
    is_wrapper,
    locate,
    topic_id_of,
)
from stratalog.log.api.view import LogView
from stratalog.log.reading import check_passed_over
from stratalog.records.arrays import Maker
from stratalog.records.batch import LOG_OVERHEAD
from stratalog.records.columns import ColumnMemory, ColumnReader
from stratalog.records.kernels.decode import RecordTable
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.walk import BatchTable
from stratalog.records.reader import BatchRow
from stratalog.records.walk import walk_batches
from stratalog.segment.resuming import end_of_batch, next_batch, torn
from stratalog.segment.segment_reader import SegmentReader

logger = logging.getLogger(__name__)

# Small enough that the bytes are still in the cache when they are checked and decoded. Usually a run becomes
# one Arrow batch.
CHUNK_SIZE = RUN_SIZE = 2 << 20
_ATTEMPTS = 5  # at a directory whose files disappear while they are read


def read_task(
    task: ReadTask,
    columns: Sequence[str],
    *,
    disk: DiskReader | None = None,
    on_omission: OnOmission = ignore_omission,
    pickers: Pickers | None = None,
    memory: ReadMemory | None = None,
    lines: LinesOf | None = None,
) -> Iterator[pa.RecordBatch]:
    """The records of a task. Without any column, the batches only say how many rows they have.

    CorruptRecordError names the file and byte of damage, unless damage is skipped; OffsetOutOfRangeError
    names offsets that were lost since the read was planned, unless failOnDataLoss is false. `on_omission` is
    called for what is skipped or lost without an error. `pickers` choose among the records of their
    partitions. A thread that reads one task after the other gives the same `memory` to each. With `lines`,
    the first column has the lines that it makes of the records of each partition.
    """
    disk = disk or reader_for(*{split.directory for split in task.splits})
    memory = memory or ReadMemory()
    return assembled(_batches(task, columns, disk, on_omission, pickers or {}, memory, lines))


def _batches(
    task: ReadTask,
    columns: Sequence[str],
    disk: DiskReader,
    on_omission: OnOmission,
    pickers: Pickers,
    memory: ReadMemory,
    lines: LinesOf | None,
) -> Iterator[pa.RecordBatch]:
    wanted = columns if columns or lines else ("offset",)
    for split in task.splits:
        gaps = Gaps(split.topic_partition, split.start_offset, split.end_offset, on_omission)
        picker = pickers.get(split.topic_partition)
        made = None if lines is None else lines(split.topic_partition)
        for batch in _SplitReader(task, split, wanted, disk, memory, gaps, picker, made).read():
            yield batch if columns or lines else without_columns(batch.num_rows)


class RowPicker(Protocol):
    """Chooses among the records of one partition; several threads may call it."""

    def pick_batches(self, headers: BatchTable, /) -> NDArray[np.bool_] | None:
        """Which batches to decode; None for all."""
        ...

    def pick_rows(self, data: Bytes, rows: RecordTable, /) -> NDArray[np.bool_] | None:
        """Which of the decoded rows to return; None for all."""
        ...


Pickers = Mapping[TopicPartition, RowPicker]
LinesOf = Callable[[TopicPartition], Maker | None]
"""Returns what makes the lines of a partition; None if nothing does."""
LINE = "line"  # the name of their column


class ReadMemory:
    """The memory that all splits of a task are read into and decoded in, one after the other."""

    def __init__(self) -> None:
        self.buffer = aligned_buffer(CHUNK_SIZE)
        self.columns = ColumnMemory()

    def hold(self, size: int) -> None:
        if size > len(self.buffer):
            self.buffer = aligned_buffer(size)


class _SplitReader:
    """Reads one split, in whichever file its records are by now."""

    def __init__(
        self,
        task: ReadTask,
        split: Split,
        columns: Sequence[str],
        disk: DiskReader,
        memory: ReadMemory,
        gaps: Gaps,
        picker: RowPicker | None,
        line: Maker | None,
    ) -> None:
        self._task, self._split, self._columns = task, split, columns
        self._made = {} if line is None else {LINE: line}
        self._disk, self._memory, self._gaps, self._picker = disk, memory, gaps, picker
        self._seen = SeenBatches(split, task.on_corruption, gaps)
        self._has_skipped = False
        self._reader = self._reader_from_here()

    def read(self) -> Iterator[pa.RecordBatch]:
        if self._is_another_topic():
            self._lose("the topic was deleted, and another one of the same name was created.")
            return
        if not (yield from self._read_hinted()):
            logger.info("%s has changed since the read was planned", self._split.path)
            yield from self._read_wherever()
        self._gaps.close()

    def _reader_from_here(self) -> ColumnReader:
        """A decoder of the rest of the split, without the records that were already read."""
        split = self._split
        return ColumnReader(
            columns=self._columns,
            made=self._made,
            topic=split.topic,
            partition=split.partition,
            start_offset=self._seen.next_offset,
            end_offset=split.end_offset,
            include_control=self._task.include_control,
            keep=self._seen if self._picker is None else self._keep_picked,
            pick=None if self._picker is None else self._pick,
            run_size=RUN_SIZE,
            memory=self._memory.columns,
        )

    def _keep_picked(self, headers: BatchTable) -> NDArray[np.bool_] | None:
        """Which batches to decode: those that were not aborted, and may have a record that is picked."""
        assert self._picker is not None
        keep, picked = self._seen(headers), self._picker.pick_batches(headers)
        return picked if keep is None else keep if picked is None else keep & picked

    def _pick(self, data: Bytes, rows: RecordTable) -> NDArray[np.bool_] | None:
        assert self._picker is not None
        if self._gaps.is_open:
            self._gaps.seen(int(rows["offset"][0]))
        return self._picker.pick_rows(data, rows)

    def _is_another_topic(self) -> bool:
        split = self._split
        found = topic_id_of(self._disk, split.directory) if split.topic_id is not None else None
        return found is not None and found != split.topic_id

    def _read_hinted(self) -> Generator[pa.RecordBatch, None, bool]:
        """Read the bytes that the hint names; returns whether they held the whole split."""
        split, hint, disk = self._split, self._split.hint, self._disk
        try:
            file = disk.open_read(split.path)
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
            return False
        with file:
            if not is_proven(split, disk.identify(file), disk.size(file), partial(disk.read_into, file)):
                return False
            segment = SegmentReader(
                disk, split.directory, split.base_offset, LogConfig(), size=hint.end_position
            )
            place = file, segment, hint.position, hint.end_position
            # The file does not grow any more, or an incomplete batch in it is to be skipped.
            if hint.size is not None or self._task.on_corruption is OnCorruption.SKIP:
                if not (yield from self._read_over(*place)):
                    return True
            elif (yield from self._read_range(*place)) < hint.end_position:
                return False
        return self._has_skipped or hint.last_offset in (-1, self._seen.last_offset)

    def _read_wherever(self) -> Iterator[pa.RecordBatch]:
        """Read by offsets; lists the directory again if a broker removes a file before it is opened."""
        for attempt in range(_ATTEMPTS):
            try:
                yield from self._read_by_offset()
                return
            except DiskError as error:
                if error.errno != errno.ENOENT or attempt == _ATTEMPTS - 1:
                    raise

    def _read_by_offset(self) -> Iterator[pa.RecordBatch]:
        """Read the missing offsets from the files that have them now."""
        view = self._view()
        if view is None:
            self._lose(f"the directory {self._split.directory} is gone.")
            return
        try:
            yield from self._read_view(view)
        finally:
            view.close()

    def _read_view(self, view: LogView) -> Iterator[pa.RecordBatch]:
        split, seen = self._split, self._seen
        if view.log_start_offset > seen.next_offset:
            start = view.log_start_offset
            self._lose(f"the log now begins at offset {start}.", end=start)
        if view.log_end_offset < split.end_offset:
            end = view.log_end_offset
            self._lose(f"the log now ends at offset {end}.", first=end)
        self._reader = self._reader_from_here()
        for segment in view.segments.range(seen.next_offset, split.end_offset):
            try:
                position, end = self._place(view, segment)
            except CorruptRecordError as error:
                self._damaged(error, seen.next_offset)  # the read below finds it again, and counts it
                position, end = 0, segment.size
            with self._disk.open_read(segment.log_path) as file:
                yield from self._read_over(file, segment, position, end)

    def _place(self, view: LogView, segment: SegmentReader) -> tuple[int, int]:
        """The byte range of a segment that has the missing offsets of the split."""
        start, last = (locate(segment, each) for each in (self._seen.next_offset, self._split.end_offset))
        if start is None:
            # All offsets of the segment are lower, or the segment ends too early.
            check_passed_over(view.segments, self._seen.next_offset, segment.base_offset + 1)
            return segment.size, segment.size
        return start.position, segment.size if last is None else last.position + last.size

    def _view(self) -> LogView | None:
        split = self._split
        try:
            found = FoundPartition(topic_partition=split.topic_partition, directory=split.directory)
            return open_view(self._disk, system_clock, found)
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
            return None

    def _read_over(
        self, file: ReadFile, segment: SegmentReader, position: int, end: int
    ) -> Generator[pa.RecordBatch, None, bool]:
        """Read as far as byte `end`; after damage, continue at the next batch that is found.

        Returns whether everything could be read. A batch that looks cut off at the end counts as damage too:
        perhaps only its length is wrong, and whole batches follow.
        """
        is_whole = True
        self._seen.last_in_file = -1
        while (position := (yield from self._read_range(file, segment, position, end))) < end:
            is_whole = False
            error = torn(file.path, position, end)
            self._damaged(error, self._seen.next_offset)
            position = next_batch(segment, position, end, last_offset=self._seen.last_offset)
            self._gaps.skipped(error, self._seen.next_offset, position - error.position)
        return is_whole

    def _read_range(
        self, file: ReadFile, segment: SegmentReader, position: int, end: int
    ) -> Generator[pa.RecordBatch, None, int]:
        """Read batches from one byte up to another; returns where the last one ended.

        When everything in the buffer is decoded, except an incomplete batch at its end, the buffer is
        refilled. It grows for a batch that does not fit.
        """
        disk, reader, memory = self._disk, self._reader, self._memory
        while position < end:
            wanted = min(len(memory.buffer), end - position)
            filled = disk.read_into(file, memory.buffer[:wanted], position)
            at, self._seen.path, self._seen.position = 0, file.path, position
            try:
                for batch in reader.read(memory.buffer, end=filled):
                    if self._gaps.is_open:
                        self._gaps.seen(reader.rows_start)
                    yield placed(batch, self._columns, position)
                at = reader.next_position
            except CorruptRecordError as error:
                data, at = memory.buffer[:filled], error.position
                found = error.at(position=position + at, path=file.path)
                first, last = self._lost_offsets(data, at)
                self._damaged(found, first)
                self._seen.last_in_file = -1  # the batches after the damage may have been seen already
                behind = end_of_batch(data, at)
                if behind is not None:
                    position += behind
                else:
                    position = next_batch(segment, position + at, end, last_offset=self._seen.last_offset)
                self._gaps.skipped(found, first, position - found.position, end_offset=last)
                continue
            if at == 0:
                needed = _size_of_first(memory.buffer, filled)
                if filled < wanted or not filled < needed <= end - position:
                    return position
                memory.hold(needed)
            position += at
        return position

    def _lost_offsets(self, data: NDArray[np.uint8], at: int) -> tuple[int, int | None]:
        """The offsets [first, end) that cannot be read; the end is None if only the next batch shows it.

        If the checksum of the batch matches, its header has these offsets, but its first records may have
        been read already. Otherwise the lost offsets follow the last offset that was read.
        """
        walk = walk_batches(data, start=at, max_size=1)
        if not len(walk.headers) or not walk.headers[0]["valid"]:
            return self._seen.next_offset, None
        header, start = BatchRow._make(walk.headers[0].item()), self._split.start_offset
        begin = start if is_wrapper(header) else header.base_offset
        return max(start, begin, self._reader.rows_end), header.last_offset + 1

    def _damaged(self, error: CorruptRecordError, first_offset: int) -> None:
        if self._task.on_corruption is OnCorruption.FAIL:
            split = self._split
            raise type(error)(
                f"{error.reason} The damaged bytes hold records of {split.topic_partition} from offset "
                f"{first_offset} on. Look with `stratalog dump`; to skip the damage and read the rest, set "
                "onCorruption=skip.",
                position=error.position,
                path=error.path,
            ) from error
        self._has_skipped = True
        logger.warning("skipped damage: %s", error)

    def _lose(self, what: str, *, first: int | None = None, end: int | None = None) -> None:
        """Report that the offsets [first, end) are gone; by default all that the split has not read yet."""
        split = self._split
        if self._task.fail_on_data_loss:
            raise OffsetOutOfRangeError(
                f"{split.topic_partition}: offsets {self._seen.next_offset} to {split.end_offset - 1} were "
                f"in {split.path} when this read was planned, and are now gone: {what} Load the directory "
                "again, or set failOnDataLoss=false to read the records that are left.",
                offset=self._seen.next_offset,
                valid=(split.start_offset, split.end_offset),
            )
        logger.warning("%s: some of the offsets up to %d are lost: %s", split.path, split.end_offset, what)
        self._gaps.lost(
            self._seen.next_offset if first is None else max(first, self._seen.next_offset),
            split.end_offset if end is None else end,
            what,
        )


def _size_of_first(buffer: NDArray[np.uint8], filled: int) -> int:
    """The size of the first batch in the buffer by its header; 0 if the header is not complete."""
    if filled < LOG_OVERHEAD:
        return 0
    return int.from_bytes(buffer[8:LOG_OVERHEAD].tobytes(), "big", signed=True) + LOG_OVERHEAD
