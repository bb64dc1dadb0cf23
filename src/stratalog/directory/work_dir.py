"""Recovery on a full disk: small files are written elsewhere first, and then over the old ones.

First the new bytes are written to a directory with room, and synced. Then they are written over the old file.
Then the copy is deleted. If a run is killed, the next run first writes the remaining copies over their files.
A file that still does not fit waits until the cuts of recovery have freed some room.

A copy is used only if no other program has used the directory since. In a partition, a *sign* shows that: an
empty file whose name ends in `.deleted`, which any program that loads the partition deletes first. The small
files of the log directory itself are never written in place by other programs, so there the inode shows it.
No copy is made of the clean-shutdown file.

Why: docs/decisions/0025-full-disk.md. Kafka: LogLoader.removeTempFilesAndCollectSwapFiles
"""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from stratalog.errors import DiskError
from stratalog.files.disk import Disk, Path, byte_view
from stratalog.files.entries import inode_of
from stratalog.files.names import CLEAN_SHUTDOWN, TEMPORARY_SUFFIX, FileState
from stratalog.files.paths import absolute_path, join_path, parent_path, prefix_of
from stratalog.files.refusals import FULL_DISK

if TYPE_CHECKING:
    from stratalog.files.disk import Data

_PREFIX, _SUFFIX = "stratalog-work-", ".json"


class _Copy(NamedTuple):
    path: str
    inode: int | None
    data: bytes


class WorkDirDisk(Disk):
    """The disk of this machine, with a `replace` that works on a full disk; `settle` ends the work."""

    def __init__(self, work_dir: Path, *, require_owner: bool = False) -> None:
        super().__init__(require_owner=require_owner)
        self.work_dir = absolute_path(work_dir)
        self._waiting: dict[str, bytes] = {}

    def replace(self, path: Path, data: Data) -> None:
        name = absolute_path(path)
        directory, last = os.path.split(name)
        try:
            super().replace(name, data)
        except DiskError as error:
            if error.errno not in FULL_DISK or directory == self.work_dir or last == CLEAN_SHUTDOWN:
                raise
            super().delete(name + TEMPORARY_SUFFIX)
            self._put_down(name, bytes(byte_view(data)))
            self._write_over(name)
        else:
            self._forget(name)

    def read_file(self, path: Path) -> bytes | None:
        waiting = self._waiting.get(absolute_path(path))
        return super().read_file(path) if waiting is None else waiting

    def replace_all(self, files: Sequence[tuple[Path, Data]]) -> None:
        for path, data in files:
            self.replace(path, data)

    def delete(self, path: Path) -> bool:
        waited = self._forget(absolute_path(path))
        return super().delete(path) or waited

    def resume(self, directories: Iterable[str]) -> None:
        """Write the copies that a killed run has left for these directories, which are locked.

        If another program has replaced the file or loaded the directory since, the copy is deleted.
        """
        below = tuple(prefix_of(directory) for directory in directories)
        for entry in self.list_directory(self.work_dir):
            if not (entry.name.startswith(_PREFIX) and entry.name.endswith(_SUFFIX)):
                continue
            copy = join_path(self.work_dir, entry.name)
            found = _parsed(self.read_at(copy, entry.size, 0))
            # Others may write to a work directory. So a copy is used only if its name follows from the path
            # in it, and if that path has no `..`, which could lead out of the log directory.
            if found is None or copy != self._copy_of(found.path) or not found.path.startswith(below):
                continue
            if self.exists(_sign_of(found.path)) and self._inode_of(found.path) == found.inode:
                self._waiting[found.path] = found.data
                self._write_over(found.path)
            else:
                self._delete_copy(found.path)

    def settle(self, directory: str) -> None:
        """Write the files that still wait for this directory; DiskError if there is no room for them yet."""
        waiting = [name for name in self._waiting if name.startswith(prefix_of(directory))]
        left = [name for name in waiting if not self._write_over(name)]
        if left:
            size = sum(len(self._waiting[name]) for name in left)
            raise DiskError(
                directory,
                f"its disk is still full; {len(left)} files with {size} bytes wait in {self.work_dir}. Free "
                "some space, then run again with the same --work-dir.",
                errno.ENOSPC,
            )

    def _put_down(self, name: str, data: bytes) -> None:
        text = base64.b64encode(data).decode("ascii")
        document = {"path": name, "inode": self._inode_of(name), "data": text}
        super().replace(self._copy_of(name), json.dumps(document).encode("ascii"))
        # The sign is created after the copy: a copy without a sign is merely useless, but a sign without a
        # copy would never be removed.
        try:
            if not self.exists(_sign_of(name)):
                self.create(_sign_of(name))
            self.sync_directory(parent_path(name))
        except DiskError:
            self._delete_copy(name)
            raise
        self._waiting[name] = data

    def _write_over(self, name: str) -> bool:
        """Write the copy that waits for this file; False if there is no room for it."""
        data = self._waiting[name]
        try:
            if self.exists(name):
                self.write_at(name, data, 0)
                self.truncate(name, len(data))
                self.sync(name)
            else:
                super().replace(name, data)
        except DiskError as error:
            if error.errno not in FULL_DISK:
                raise
            super().delete(name + TEMPORARY_SUFFIX)
            return False
        self._forget(name)
        return True

    def _forget(self, name: str) -> bool:
        """Delete the copy that waits for this file; returns whether there was one."""
        if self._waiting.pop(name, None) is None:
            return False
        self._delete_copy(name)
        return True

    def _delete_copy(self, name: str) -> None:
        super().delete(_sign_of(name))
        super().delete(self._copy_of(name))

    def _inode_of(self, name: str) -> int | None:
        status = self.status(name)
        return None if status is None else inode_of(status.id)

    def _copy_of(self, name: str) -> str:
        return join_path(self.work_dir, f"{_PREFIX}{_short(name)}{_SUFFIX}")


def _sign_of(name: str) -> str:
    """The path of the sign beside a file for which a copy waits."""
    return join_path(parent_path(name), f"{_PREFIX}{_short(name)}{FileState.DELETED.value}")


def _short(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:32]


def _parsed(text: bytes) -> _Copy | None:
    """Parse a copy; None for a file that is not a copy of ours."""
    try:
        found = json.loads(text)
        path, inode = found["path"], found["inode"]
        data = base64.b64decode(found["data"], validate=True)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    is_path = isinstance(path, str) and absolute_path(path) == path
    return _Copy(path, inode, data) if is_path and isinstance(inode, int | None) else None
