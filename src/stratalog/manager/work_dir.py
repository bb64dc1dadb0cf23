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
from typing import TYPE_CHECKING

from stratalog.errors import DiskError
from stratalog.files.disk import Disk, Path, byte_view
from stratalog.files.names import TEMPORARY_SUFFIX

if TYPE_CHECKING:
    from stratalog.files.disk import Data

_PREFIX, _SUFFIX = "stratalog-work-", ".json"
_FULL = (errno.ENOSPC, errno.EDQUOT)


class WorkDirDisk(Disk):
    """The disk of this machine, whose `replace` copes with one that is full; `settle` ends the work."""

    def __init__(self, work_dir: Path, *, require_owner: bool = False) -> None:
        super().__init__(require_owner=require_owner)
        self.work_dir = os.fspath(work_dir)
        self._waiting: dict[str, bytes] = {}

    def replace(self, path: Path, data: Data) -> None:
        name = os.path.abspath(path)  # noqa: PTH100
        try:
            super().replace(name, data)
        except DiskError as error:
            if error.errno not in _FULL or os.path.dirname(name) == self.work_dir:  # noqa: PTH120
                raise
            self.delete(name + TEMPORARY_SUFFIX)
            self._write_over(name, bytes(byte_view(data)))
        else:
            self._waiting.pop(name, None)

    def delete(self, path: Path) -> bool:
        waited = self._waiting.pop(os.path.abspath(path), None) is not None  # noqa: PTH100
        if waited:
            super().delete(self._copy_of(os.path.abspath(path)))  # noqa: PTH100
        return super().delete(path) or waited

    def resume(self) -> None:
        """Do what a run that was killed had written down."""
        for entry in self.list_directory(self.work_dir):
            if entry.name.startswith(_PREFIX) and entry.name.endswith(_SUFFIX):
                copy = os.path.join(self.work_dir, entry.name)  # noqa: PTH118
                found = json.loads(self.read_at(copy, entry.size, 0))
                self._waiting[found["path"]] = base64.b64decode(found["data"])
        self.settle(must=False)

    def settle(self, *, must: bool = True) -> None:
        """Write what is still waiting; if it `must` be now, DiskError where there is no room for it yet."""
        for name, data in list(self._waiting.items()):
            if not self._try_over(name, data) and must:
                wanted = sum(len(other) for other in self._waiting.values())
                raise DiskError(
                    name,
                    f"the disk is still full; {len(self._waiting)} files with {wanted} bytes wait in "
                    f"{self.work_dir}. Free some space, then run again with the same --work-dir.",
                    errno.ENOSPC,
                )

    def _write_over(self, name: str, data: bytes) -> None:
        document = {"path": name, "data": base64.b64encode(data).decode("ascii")}
        super().replace(self._copy_of(name), json.dumps(document).encode("ascii"))
        self._waiting[name] = data
        self._try_over(name, data)

    def _try_over(self, name: str, data: bytes) -> bool:
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
            self.delete(name + TEMPORARY_SUFFIX)
            return False
        self._waiting.pop(name, None)
        self.delete(self._copy_of(name))
        return True

    def _copy_of(self, name: str) -> str:
        short = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
        return os.path.join(self.work_dir, f"{_PREFIX}{short}{_SUFFIX}")  # noqa: PTH118
