"""A full disk: small files are written elsewhere first, and then over the old ones, block by block.

A file is replaced by writing a new one beside it, for which a full disk has no room. The blocks of the old
one could be written again, but a crash in the midst of that would leave neither. So the new bytes are put, on
the device, into a directory with room; then they are written over the old file; then the copy is deleted. A
run that was killed is followed by one that does first what the copies say. A file that does not fit even so
waits until what recovery cuts off has freed some room.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from stratalog.errors import DiskError
from stratalog.files.disk import Disk, Path, byte_view
from stratalog.files.names import TEMPORARY_SUFFIX

if TYPE_CHECKING:
    from stratalog.files.disk import Data

_PREFIX, _SUFFIX = "stratalog-work-", ".json"
_FULL = (errno.ENOSPC, errno.EDQUOT)


class _Copy(NamedTuple):
    path: str
    inode: int | None
    data: bytes


class WorkDirDisk(Disk):
    """The disk of this machine, whose `replace` copes with one that is full; `settle` ends the work."""

    def __init__(self, work_dir: Path, *, require_owner: bool = False) -> None:
        super().__init__(require_owner=require_owner)
        self.work_dir = os.path.abspath(work_dir)  # noqa: PTH100
        self._waiting: dict[str, bytes] = {}

    def replace(self, path: Path, data: Data) -> None:
        name = os.path.abspath(path)  # noqa: PTH100
        try:
            super().replace(name, data)
        except DiskError as error:
            if error.errno not in _FULL or os.path.dirname(name) == self.work_dir:  # noqa: PTH120
                raise
            super().delete(name + TEMPORARY_SUFFIX)
            self._put_down(name, bytes(byte_view(data)))
            self._write_over(name)
        else:
            self._forget(name)

    def delete(self, path: Path) -> bool:
        waited = self._forget(os.path.abspath(path))  # noqa: PTH100
        return super().delete(path) or waited

    def resume(self, directories: Iterable[str]) -> None:
        """Do what a run that was killed had put down for these directories, which are locked.

        What somebody else has replaced since is theirs: the copy is deleted.
        """
        below = tuple(directory + os.sep for directory in directories)
        for entry in self.list_directory(self.work_dir):
            if not (entry.name.startswith(_PREFIX) and entry.name.endswith(_SUFFIX)):
                continue
            copy = os.path.join(self.work_dir, entry.name)  # noqa: PTH118
            found = _parsed(self.read_at(copy, entry.size, 0))
            # Others may write to a work directory. A copy has the name that its path gives it, and that path
            # is one without `..`: only so does it lie below a directory that it begins with.
            if found is None or copy != self._copy_of(found.path) or not found.path.startswith(below):
                continue
            if self._inode_of(found.path) == found.inode:
                self._waiting[found.path] = found.data
                self._write_over(found.path)
            else:
                super().delete(copy)

    def settle(self, directory: str) -> None:
        """Write what still waits for this directory; DiskError if there is no room for it yet."""
        waiting = [name for name in self._waiting if name.startswith(directory + os.sep)]
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
        self._waiting[name] = data

    def _write_over(self, name: str) -> bool:
        """Write what waits for this file; False if there is no room for it."""
        data = self._waiting[name]
        try:
            if self.exists(name):
                self.write_at(name, data, 0)
                self.truncate(name, len(data))
                self.sync(name)
            else:
                super().replace(name, data)
        except DiskError as error:
            if error.errno not in _FULL:
                raise
            super().delete(name + TEMPORARY_SUFFIX)
            return False
        self._forget(name)
        return True

    def _forget(self, name: str) -> bool:
        """Whether something was waiting for this file; it is not any more."""
        if self._waiting.pop(name, None) is None:
            return False
        super().delete(self._copy_of(name))
        return True

    def _inode_of(self, name: str) -> int | None:
        status = self.status(name)
        return None if status is None else status.inode

    def _copy_of(self, name: str) -> str:
        short = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
        return os.path.join(self.work_dir, f"{_PREFIX}{short}{_SUFFIX}")  # noqa: PTH118


def _parsed(text: bytes) -> _Copy | None:
    """What a copy says; None for a file that no run put down."""
    try:
        found = json.loads(text)
        path, inode = found["path"], found["inode"]
        data = base64.b64decode(found["data"], validate=True)
    except (ValueError, KeyError, TypeError):
        return None
    is_path = isinstance(path, str) and os.path.abspath(path) == path  # noqa: PTH100
    return _Copy(path, inode, data) if is_path and isinstance(inode, int | None) else None
