"""`stratalog-erased.jsonl`, at the root of a log directory: a line for each file that lost records.

{"time_ms": 1700000000000, "partition": "orders-0", "file": "orders-0/00000000000000000042.log",
 "what": "segment", "records_count": 2, "first_offset": 43, "last_offset": 57,
 "key_hashes": ["<SHA-256 of a key>"], "size_before": 8192, "size_after": 8000,
 "sha256_before": "...", "sha256_after": "..." or null}

Keys are written as hashes, so that the file keeps no erased data; a known key can still be looked up. A line
is on the device before its file changes. After a crash in between, the next run does what the line says, and
does not write the line again. The offsets are -1 for a file that was deleted as a whole.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from stratalog.files.names import ERASURES
from stratalog.files.paths import join_path

if TYPE_CHECKING:
    from stratalog.log.cleaning.erase import Rewritten


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """The change of one file. `sha256_after` is None if the file is gone."""

    time_ms: int
    partition: str
    file: str
    what: str
    records_count: int
    first_offset: int
    last_offset: int
    key_hashes: list[str]
    size_before: int
    size_after: int
    sha256_before: str
    sha256_after: str | None

    @classmethod
    def of(cls, rewritten: Rewritten, *, time_ms: int, partition: str, file: str, what: str) -> AuditLine:
        removed = rewritten.removed
        return cls(
            time_ms=time_ms,
            partition=partition,
            file=file,
            what=what,
            records_count=removed.records_count,
            first_offset=removed.first_offset,
            last_offset=removed.last_offset,
            key_hashes=sorted(removed.key_hashes),
            size_before=rewritten.size_before,
            size_after=rewritten.size_after,
            sha256_before=rewritten.before,
            sha256_after=rewritten.after,
        )

    @property
    def subject(self) -> tuple[object, ...]:
        """The identity of a line: all fields but the time and the hashes of keys."""
        return tuple(value for name, value in asdict(self).items() if name not in ("time_ms", "key_hashes"))


class Audit:
    """The file `stratalog-erased.jsonl` of one log directory."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self.path = join_path(directory, ERASURES)

    def lines(self) -> list[AuditLine]:
        """All lines, the oldest first; a line that a crash has torn is left out."""
        status = self._disk.status(self.path)
        data = b"" if status is None else self._disk.read_at(self.path, status.size, 0)
        found = (_parsed(line) for line in data.split(b"\n"))
        return [line for line in found if line is not None]

    def write(self, line: AuditLine) -> None:
        """Add a line, on the device when this returns."""
        entries = self._disk.list_directory(self._directory)
        if any(entry.name == ERASURES and entry.is_symlink for entry in entries):
            raise DiskError(self.path, "it is a symbolic link, which is not written through.")
        if any(other.subject == line.subject for other in self.lines()):
            return
        data = json.dumps(asdict(line)).encode("ascii") + b"\n"
        status = self._disk.status(self.path)
        if status is None:
            self._disk.create(self.path)
            self._disk.sync_directory(self._directory)
        elif status.size and self._disk.read_at(self.path, 1, status.size - 1) != b"\n":
            data = b"\n" + data
        self._disk.append(self.path, data)
        self._disk.sync(self.path)


def _parsed(line: bytes) -> AuditLine | None:
    try:
        return AuditLine(**json.loads(line.strip(b"\0")))
    except (ValueError, TypeError, RecursionError):
        return None
