"""Looks up single batches of a log, to compare an index with."""

from __future__ import annotations

import struct
from types import TracebackType
from typing import NamedTuple, Self

from stratalog.buffers import aligned_buffer
from stratalog.cli.dumping.runs import RecordReader
from stratalog.files.disk import ReadFile
from stratalog.files.reading import DiskReader
from stratalog.records.batch import LOG_OVERHEAD
from stratalog.records.kernels.walk import SMALLEST_V0, SMALLEST_V1, SMALLEST_V2
from stratalog.records.walk import new_table, walk_batches
from stratalog.segment.headers import BatchChunk

NO_TIMESTAMP = -1
# Base offset, length, leader epoch, magic, CRC, attributes and last offset delta: the first 27 bytes of a
# batch. In a v0 or v1 message only base offset, length and magic are at these places.
_START = struct.Struct(">q i i b I h i")
_SMALLEST = {0: SMALLEST_V0, 1: SMALLEST_V1, 2: SMALLEST_V2}
_MAGIC_V2 = 2


class BatchPlace(NamedTuple):
    """A batch: its position, size and offsets. Of a v0 or v1 wrapper only the last offset is known."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    magic: int


class LogLookup:
    """A log open for lookups; `exists` is False if there is no such file."""

    def __init__(self, disk: DiskReader, path: str) -> None:
        self._disk = disk
        self._file: ReadFile | None = disk.open_read(path) if disk.exists(path) else None
        self.size = 0 if self._file is None else disk.size(self._file)
        self._start = memoryview(bytearray(_START.size))
        self._found: BatchPlace | None = None
        self._reader: RecordReader | None = None

    @property
    def exists(self) -> bool:
        return self._file is not None

    def batch_at(self, position: int) -> BatchPlace | None:
        """The batch that starts at this byte; None if no whole batch does."""
        if self._file is None or not 0 <= position < self.size:
            return None
        if self._disk.read_into(self._file, self._start, position) < _START.size:
            return None
        base_offset, length, _, magic, _, _, last_offset_delta = _START.unpack(self._start)
        if length < _SMALLEST.get(magic, self.size) or length > self.size - position - LOG_OVERHEAD:
            return None
        last_offset = base_offset + (last_offset_delta if magic == _MAGIC_V2 else 0)
        return BatchPlace(position, length + LOG_OVERHEAD, base_offset, last_offset, magic)

    def first_batch_reaching(self, offset: int, position: int) -> BatchPlace | None:
        """The first batch from `position` on that ends with this offset or a later one; None if none does.

        It continues from the last result if that is nearer: the offsets of an index ascend.
        """
        found = self._found
        if found is not None and found.last_offset <= offset and found.position > position:
            position = found.position
        batch = self.batch_at(position)
        while batch is not None and batch.last_offset < offset:
            batch = self.batch_at(batch.position + batch.size)
        if batch is not None:
            self._found = batch
        return batch

    def last_batch(self, position: int) -> BatchPlace | None:
        """The last whole batch; the search starts at the batch at `position`."""
        last, batch = None, self.batch_at(position)
        while batch is not None:
            last, batch = batch, self.batch_at(batch.position + batch.size)
        return last

    def max_timestamp(self, batch: BatchPlace) -> int:
        """The largest timestamp of the batch's records, as far as they can be read; -1 if it has none."""
        assert self._file is not None
        self._reader = self._reader or RecordReader()
        data = aligned_buffer(batch.size)
        size = self._disk.read_into(self._file, data, batch.position)
        walk = walk_batches(data, end=size, table=new_table(1), check_crc=False)
        largest = NO_TIMESTAMP
        for records in self._reader.read(BatchChunk(data, walk.headers, batch.position)):
            if len(records.rows):
                largest = max(largest, int(records.rows["timestamp"].max()))
        return largest

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
