"""Turns the system's refusals into our errors: what was tried, on which file, why, and what to do."""

from __future__ import annotations

import errno
import os
from types import TracebackType

from stratalog.errors import DiskError

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
"""The errors of a disk, or a user's share of it, that has no room."""

# Advice for the refusals that a user can do something about.
_ADVICE = {
    errno.EACCES: "Run as the user that owns the log directory.",
    errno.EDQUOT: "Free some space or raise the quota, then run again.",
    errno.EIO: "The device is failing: first copy all readable files to another device.",
    errno.EMFILE: "Raise the limit of open files (ulimit -n).",
    errno.ENOENT: "Check the path; if a broker uses the directory, it may just have deleted the file.",
    errno.ENOSPC: "Free some space, then run again.",
    errno.EPERM: "Run as the user that owns the log directory.",
    errno.EROFS: "The file system is mounted read-only.",
}


def refused(action: str, path: str | os.PathLike[str], error: OSError) -> DiskError:
    """The DiskError for an OSError; raise it `from` the OSError."""
    reason = error.strerror or str(error)
    number = error.errno or 0
    return DiskError(path, f"could not {action} it: {reason}. {_ADVICE.get(number, '')}".rstrip(), number)


class Refusing:
    """`with Refusing("sync", path):` turns an OSError inside the block into a DiskError."""

    __slots__ = ("_action", "_path")

    def __init__(self, action: str, path: str) -> None:
        self._action = action
        self._path = path

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError) and not isinstance(error, DiskError):
            raise refused(self._action, self._path, error) from error
