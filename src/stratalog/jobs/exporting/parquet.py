"""Parquet files written by a task itself, one for each topic and day that it meets."""

from __future__ import annotations

import io
import os
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from stratalog.files.disk import Disk
from stratalog.jobs.exporting.folder import StagedFile

# A row group is what a reader of Parquet reads at once. Larger ones compress little better.
ROW_GROUP_SIZE = 64 << 20
ROW_GROUP_ROWS = 1 << 20
BUFFERED_SIZE = 128 << 20
OPEN_FILES = 32


class ParquetFiles:
    """The files of one task. Rows wait in memory until they fill a row group, or are too many in all."""

    def __init__(
        self, disk: Disk, root: str, staged: str, name: str, *, schema: pa.Schema, codec: str
    ) -> None:
        self._disk = disk
        self._root, self._staged, self._name = root, staged, name
        self._schema, self._codec = schema, codec
        self._open: dict[str, _File] = {}
        self._count = 0
        self.finished: list[StagedFile] = []

    def write(self, place: str, rows: pa.RecordBatch) -> None:
        """Rows for a file below `place`, such as topic=orders/date=2026-11-15."""
        file = self._open.pop(place, None) or self._new(place)
        self._open[place] = file  # the last one used stands last
        file.write(rows)
        while sum(each.waiting_size for each in self._open.values()) > BUFFERED_SIZE:
            max(self._open.values(), key=lambda each: each.waiting_size).flush()
        if len(self._open) > OPEN_FILES:
            self._finish(next(iter(self._open)))

    def close(self) -> None:
        """Finish every file, on the device; `finished` has them then."""
        for place in list(self._open):
            self._finish(place)
        if self._count:
            self._disk.sync_directory(os.path.join(self._root, self._staged))  # noqa: PTH118

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            for file in self._open.values():
                file.abandon()

    def _new(self, place: str) -> _File:
        target = f"{place}{os.sep}{self._name}-{self._count}.parquet"
        staged = f"{self._staged}{os.sep}{self._count}.parquet"
        self._count += 1
        path = os.path.join(self._root, staged)  # noqa: PTH118
        return _File(self._disk, path, staged, target, schema=self._schema, codec=self._codec)

    def _finish(self, place: str) -> None:
        self.finished.append(self._open[place].finish())
        del self._open[place]


class _File:
    def __init__(
        self, disk: Disk, path: str, staged: str, target: str, *, schema: pa.Schema, codec: str
    ) -> None:
        self._disk, self._path, self._staged, self._target = disk, path, staged, target
        self._sink = _DiskStream(disk, path)
        self._writer = pq.ParquetWriter(self._sink, schema, compression=codec, **_encodings(schema))
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._rows = 0
        self.waiting_size = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self.waiting_size += rows.nbytes
        if self.waiting_size >= ROW_GROUP_SIZE or self._waiting_rows >= ROW_GROUP_ROWS:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting)
            self._writer.write_table(table, row_group_size=len(table))
            self._rows += len(table)
        self._waiting, self._waiting_rows, self.waiting_size = [], 0, 0

    def finish(self) -> StagedFile:
        self.flush()
        self._writer.close()
        self._disk.sync(self._path)
        return StagedFile(
            staged=self._staged, target=self._target, rows=self._rows, size=self._disk.size(self._path)
        )

    def abandon(self) -> None:
        """Let go of the file as it is: nobody will look at it."""
        self._sink.is_abandoned = True
        self._writer.close()


def _encodings(schema: pa.Schema) -> dict[str, Any]:  # Any: what ParquetWriter takes
    """How columns are encoded: a third less to do than by Arrow's defaults, and smaller files.

    Offsets and times grow by little, so their differences are kept. A dictionary is made where values repeat;
    keys and values hardly do, and finding that out costs. Smallest and largest values are noted where readers
    skip by them.
    """
    growing = [name for name in _GROWING if name in schema.names]
    return {
        "column_encoding": dict.fromkeys(growing, "DELTA_BINARY_PACKED") or None,
        "use_dictionary": [leaf for field in schema for leaf in _leaves(field) if leaf not in _VARIED],
        "write_statistics": [name for name in schema.names if name not in _VARIED or name in _GROWING],
    }


_GROWING = ("offset", "timestamp", "position")
_VARIED = frozenset((*_GROWING, "key", "value", "undecodedKey", "undecodedValue"))


def _leaves(field: pa.Field, above: str = "") -> list[str]:
    """The paths of plain columns, those in structs too; what is in lists and maps is left out."""
    path = f"{above}{field.name}"
    if pa.types.is_struct(field.type):
        return [leaf for inner in field.type for leaf in _leaves(inner, f"{path}.")]
    return [] if pa.types.is_nested(field.type) else [path]


class _DiskStream(io.RawIOBase):
    """A new file as the stream that Arrow writes to, through the one door to the disk."""

    def __init__(self, disk: Disk, path: str) -> None:
        super().__init__()
        self._disk, self._path = disk, path
        self._size = 0
        self.is_abandoned = False
        disk.create(path)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: Any) -> int:  # Any: whatever has bytes, as in `io`
        size = memoryview(data).nbytes
        if not self.is_abandoned:
            # After a refusal nothing more is tried: Arrow would write on when its writer is collected.
            self.is_abandoned = True
            self._disk.append(self._path, data)
            self.is_abandoned = False
        self._size += size
        return size
