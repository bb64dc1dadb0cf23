"""A disk that records changes instead of making them, and reads as if it had made them.

It is for a dry run that follows another dry run. A truncated file ends earlier; a replaced file is read from
a spool directory; a renamed file has its new name; a deleted file does not exist. The real files stay
unchanged. Only the changes that a recovery plan makes are supported: no appends and no writes in place.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from stratalog.files.disk import Disk
from stratalog.files.entries import DirectoryEntry, ExpectedFile, FileStatus, Path, ReadFile
from stratalog.files.paths import join_path

if TYPE_CHECKING:
    from stratalog.files.disk import Data, Target


class _Source(NamedTuple):
    """Where the bytes of a planned file are, and how many of them belong to it (None: all)."""

    path: str
    size: int | None = None


class _CutFile(ReadFile):
    """A file that ends at `end`, whatever its real size."""

    __slots__ = ("end",)
    end: int


class PlannedDisk(Disk):
    """Reads as if the recorded changes had been made; `spool` is a directory for the replaced files."""

    def __init__(self, spool: str) -> None:
        super().__init__()
        self._spool = spool
        self._count = 0
        self._files: dict[str, dict[str, _Source | None]] = {}  # by directory and name; None: gone

    def truncate(self, path: Path, size: int) -> None:
        source = self._source(path)
        assert source is not None, "a plan cuts files that are there"
        self._note(path, source._replace(size=size))

    def replace(self, path: Path, data: Data) -> None:
        self._count += 1
        place = join_path(self._spool, str(self._count))
        Disk().replace(place, data)  # not super(): its rename would only be recorded
        self._note(path, _Source(place))

    def replace_all(self, files: Sequence[tuple[Path, Data]]) -> None:
        for path, data in files:
            self.replace(path, data)

    def rename(self, source: Path, target: Path) -> None:
        self._note(target, self._source(source))
        self._note(source, None)

    def delete(self, path: Path) -> bool:
        was_there = self.exists(path)
        self._note(path, None)
        return was_there

    def sync(self, path: Path) -> None:
        """Nothing was written."""

    def sync_directory(self, path: Path) -> None:
        """Nothing was renamed."""

    def open_read(self, path: Path) -> ReadFile:
        found = self._source(path)
        file = super().open_read(self._place(path))
        if found is None or found.size is None:
            return file
        cut = _CutFile(file.path, file.descriptor)
        cut.end = found.size
        return cut

    def read_into(
        self, source: ReadFile | Path, buffer: Target, position: int, identity: ExpectedFile | None = None
    ) -> int:
        view = buffer if isinstance(buffer, memoryview) else buffer.data
        if isinstance(source, ReadFile):
            if isinstance(source, _CutFile):
                view = view[: max(0, source.end - position)]
            return super().read_into(source, view, position)
        found = self._source(source)
        if found is not None and found.size is not None:
            view = view[: max(0, found.size - position)]
        return super().read_into(self._place(source), view, position, identity)

    def read_at(self, path: Path, size: int, position: int, identity: ExpectedFile | None = None) -> bytes:
        found = self._source(path)
        if found is not None and found.size is not None:
            size = min(size, max(0, found.size - position))
        return super().read_at(self._place(path), size, position, identity)

    def size(self, source: ReadFile | Path) -> int:
        if isinstance(source, ReadFile):
            return source.end if isinstance(source, _CutFile) else super().size(source)
        found = self._source(source)
        if found is not None and found.size is not None:
            return found.size
        return super().size(self._place(source))

    def status(self, path: Path) -> FileStatus | None:
        found = self._source(path)
        if found is None:
            return None
        status = super().status(found.path)
        return status if status is None or found.size is None else status._replace(size=found.size)

    def list_directory(self, path: Path) -> list[DirectoryEntry]:
        changed = self._files.get(os.fspath(path), {})
        entries = [entry for entry in super().list_directory(path) if entry.name not in changed]
        for name, source in changed.items():
            if source is not None and (status := super().status(source.path)) is not None:
                size = status.size if source.size is None else source.size
                entries.append(
                    DirectoryEntry(
                        name, status.kind, size, status.id, is_symlink=False, mtime_ms=status.mtime_ms
                    )
                )
        return sorted(entries)

    def list_sizes(self, path: Path, suffix: str) -> dict[str, int]:
        return {
            entry.name: entry.size if entry.name.endswith(suffix) else 0
            for entry in self.list_directory(path)
        }

    def _note(self, path: Path, source: _Source | None) -> None:
        directory, name = os.path.split(os.fspath(path))
        self._files.setdefault(directory, {})[name] = source

    def _source(self, path: Path) -> _Source | None:
        """Where the bytes are; None if the plan deletes or renames the file."""
        name = os.fspath(path)
        directory, last = os.path.split(name)
        changed = self._files.get(directory)
        return _Source(name) if changed is None else changed.get(last, _Source(name))

    def _place(self, path: Path) -> str:
        found = self._source(path)
        # A name that no file has, so that the next call fails as if the file did not exist.
        return join_path(self._spool, "gone") if found is None else found.path
