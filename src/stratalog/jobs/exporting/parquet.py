"""Writes the Parquet files of a task, one for each topic and day in its records."""

from __future__ import annotations

import io
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from stratalog.files.disk import Disk
from stratalog.files.paths import join_path
from stratalog.jobs.exporting.folder import StagedFile

# A reader of Parquet reads one row group at a time. Larger groups compress only slightly better.
ROW_GROUP_SIZE = 64 << 20
ROW_GROUP_ROWS = 1 << 20
BUFFERED_SIZE = 128 << 20
OPEN_FILES = 32


class ParquetFiles:
    """The files of one task.

    Rows wait in memory until they fill a row group, or until all waiting rows together are too large.
    """

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
        """Write rows to a file below `place`, such as topic=orders/date=2026-11-15."""
        file = self._open.pop(place, None) or self._new(place)
        self._open[place] = file  # the most recently used file is last
        file.write(rows)
        while sum(each.waiting_size for each in self._open.values()) > BUFFERED_SIZE:
            max(self._open.values(), key=lambda each: each.waiting_size).flush()
        if len(self._open) > OPEN_FILES:
            self._finish(next(iter(self._open)))

    def close(self) -> None:
        """Finish and sync every file; they are then in `finished`."""
        for place in list(self._open):
            self._finish(place)
        if self._count:
            self._disk.sync_directory(join_path(self._root, self._staged))

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
        target = join_path(place, f"{self._name}-{self._count}.parquet")
        staged = join_path(self._staged, f"{self._count}.parquet")
        self._count += 1
        path = join_path(self._root, staged)
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
        """Close the file without finishing it: nobody will read it."""
        self._sink.is_abandoned = True
        self._writer.close()


def _encodings(schema: pa.Schema) -> dict[str, Any]:  # Any: what ParquetWriter takes
    """How columns are encoded: a third faster than with Arrow's defaults, and in less space.

    Offsets and times grow in small steps, so their differences are stored. Columns whose values repeat get a
    dictionary; keys and values hardly repeat, and trying a dictionary for them costs time. Statistics
    (smallest and largest value) are written for the columns by which readers skip row groups.
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
    """The paths of plain columns, including those in structs; columns in lists and maps are left out."""
    path = f"{above}{field.name}"
    if pa.types.is_struct(field.type):
        return [leaf for inner in field.type for leaf in _leaves(inner, f"{path}.")]
    return [] if pa.types.is_nested(field.type) else [path]


class _DiskStream(io.RawIOBase):
    """A stream for Arrow that writes a new file through `Disk`."""

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

    def write(self, data: Any) -> int:  # Any: any object with bytes, as in `io`
        size = memoryview(data).nbytes
        if not self.is_abandoned:
            # After a failed write, later writes are ignored: Arrow would try again when its writer is
            # garbage-collected.
            self.is_abandoned = True
            self._disk.append(self._path, data)
            self.is_abandoned = False
        self._size += size
        return size
