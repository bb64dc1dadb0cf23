"""The manifest file of one quarantine: its lines, found by their origin, and the names that they use.

A line that a crash has torn is ignored, and the next entry begins on a new line.
"""

from __future__ import annotations

from collections.abc import Sequence

from stratalog.errors import DiskError, QuarantineError, QuarantineFullError
from stratalog.files.disk import Disk
from stratalog.files.names import QUARANTINE_MANIFEST
from stratalog.files.paths import join_path
from stratalog.files.refusals import FULL_DISK
from stratalog.log.recovery.manifest import ManifestEntry, format_line, kept_name, parse_line

_LARGEST_MANIFEST = 256 << 20  # about a million lines


class ManifestFile:
    """The lines, read once and kept in memory. Not thread-safe: the quarantine's lock guards it."""

    def __init__(self, disk: Disk, directory: str, advice: str) -> None:
        self._disk = disk
        self._directory = directory
        self._path = join_path(directory, QUARANTINE_MANIFEST)
        self._advice = advice  # for the user, if a line cannot be written
        self._lines: list[ManifestEntry] | None = None
        # The lines by origin, and all names in use. Both make a look-up quick: a whole log of 16,000 segments
        # may be moved here.
        self._by_source: dict[tuple[str, str, str], list[ManifestEntry]] = {}
        self._taken: set[str] = set()

    def read_again(self) -> Sequence[ManifestEntry]:
        """All lines, read again: another process may have written some since."""
        self._lines = None
        return self.read()

    def read(self) -> Sequence[ManifestEntry]:
        """All lines, oldest first."""
        if self._lines is None:
            if self._is_link():
                raise QuarantineError(self._path, "it is a symbolic link, which is not written through.")
            status = self._disk.status(self._path)
            if status is not None and status.size > _LARGEST_MANIFEST:
                raise QuarantineError(
                    self._path, f"it has {status.size} bytes, which is too large for a manifest."
                )
            data = b"" if status is None else self._disk.read_at(self._path, status.size, 0)
            found = (parse_line(line) for line in data.split(b"\n"))
            self._lines, self._by_source, self._taken = [], {}, set()
            for kept in found:
                if kept is not None:
                    self._note(kept)
        return self._lines

    def lines_of(self, directory: str, partition: str, file: str) -> Sequence[ManifestEntry]:
        """The lines about one file of a partition in a log directory."""
        self.read()
        return self._by_source.get((directory, partition, file), [])

    def free_name(self, partition: str, file: str, position: int) -> str:
        """A name that no line uses. If a file has that name, it is the copy of a killed run."""
        self.read()
        name, number = kept_name(partition, file, f"{position}"), 1
        while name in self._taken:
            number += 1
            name = kept_name(partition, file, f"{position}-{number}")
        return name

    def write(self, kept: ManifestEntry) -> None:
        """Add a line; it is on the device when this returns. QuarantineFullError if it does not fit."""
        self.read()
        line = format_line(kept)
        status = self._disk.status(self._path)
        if status is None:
            self._disk.create(self._path)
            self._disk.sync_directory(self._directory)
        elif status.size and self._disk.read_at(self._path, 1, status.size - 1) != b"\n":
            line = b"\n" + line
        try:
            self._disk.append(self._path, line)
            self._disk.sync(self._path)
        except DiskError as error:
            if error.errno not in FULL_DISK:
                raise
            free = self._disk.free_size(self._directory)
            raise QuarantineFullError(self._directory, len(line), free, self._advice) from error
        self._note(kept)

    def _is_link(self) -> bool:
        if not self._disk.exists(self._directory):
            return False
        found = self._disk.list_directory(self._directory)
        return any(entry.name == QUARANTINE_MANIFEST and entry.is_symlink for entry in found)

    def _note(self, kept: ManifestEntry) -> None:
        assert self._lines is not None, "the manifest is read first"
        self._lines.append(kept)
        self._by_source.setdefault((kept.directory, kept.partition, kept.file), []).append(kept)
        self._taken.update(kept.files)
