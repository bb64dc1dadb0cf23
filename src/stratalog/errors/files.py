"""Errors of files and directories: refused by the system, in use, of another owner, not as planned."""

from __future__ import annotations

import errno
import os
from typing import Self, cast

from stratalog.errors.root import StratalogError, _PathError

_IN_USE = "a broker or another tool is using this directory: stop it, then run again."


class DiskError(StratalogError, OSError):
    """The system refused to read or write a file. `errno` is the system's number, or 0.

    For a missing file or a missing permission it is one of the two subclasses below.
    """

    errno: int  # never None here

    def __new__(cls, path: str | os.PathLike[str], reason: str, errno: int = 0) -> Self:
        kind = _BY_NUMBER.get(errno, cls) if cls is DiskError else cls
        return cast("Self", super().__new__(kind, f"{os.fspath(path)}: {reason}"))

    def __init__(self, path: str | os.PathLike[str], reason: str, errno: int = 0) -> None:
        self.path = self.filename = os.fspath(path)
        self.reason = reason
        self.errno = errno

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.reason, self.errno)

    def on_host(self, host: str) -> DiskError:
        """The same error, with the name of the host in its message."""
        return DiskError(self.path, f"{self.reason} (on host {host})", self.errno)


class NoSuchFileError(DiskError, FileNotFoundError):
    """A file or directory that is to be read is not there."""


class AccessDeniedError(DiskError, PermissionError):
    """The system does not allow this user to read or write a file."""


_BY_NUMBER: dict[int, type[DiskError]] = {
    errno.ENOENT: NoSuchFileError,
    errno.EACCES: AccessDeniedError,
    errno.EPERM: AccessDeniedError,
}


class EraseProofError(_PathError):
    """A file that an erasure wrote does not contain exactly the records that should remain.

    The files that it was made from are still there.
    """

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(
            path,
            reason,
            f"{os.fspath(path)}: {reason} An erasure wrote this file, and the files it was made from are "
            "still there. Check the disk and the memory of this machine, then run again.",
        )


class FileOwnerError(StratalogError):
    """A file belongs to another user, and would belong to this user if it were rewritten."""

    def __init__(self, path: str | os.PathLike[str], owner: int, user: int) -> None:
        self.path = os.fspath(path)
        self.owner = owner
        self.user = user
        super().__init__(
            f"{self.path}: it belongs to user {owner}. A file that user {user} writes here would belong to "
            f"{user}, and the broker might be unable to open it. Nothing was changed. Run as root, which "
            "keeps owners, or as the broker's user if that user owns all files."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.owner, self.user)


class FormatRefusedError(_PathError):
    """A log directory that cannot be formatted; nothing was changed. `reason` says why, and what to do."""


class LogDirLockedError(_PathError):
    """The log directory is in use, most likely by a broker; or its lock was lost."""

    def __init__(self, path: str | os.PathLike[str], reason: str = "") -> None:
        super().__init__(path, reason or _IN_USE)


class TwoNodesError(StratalogError):
    """Log directories that do not all belong to one node of one cluster: nothing was changed in them."""


class NotALogDirectoryError(_PathError, ValueError):
    """A path that is not a log directory: nothing was changed there. `reason` names the likely mistake."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(path, reason, f"{os.fspath(path)} is not a log directory: {reason}")


class MissingLogDirectoryError(NotALogDirectoryError, FileNotFoundError):
    """A log directory that does not exist."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(path, reason)
        self.errno, self.filename = errno.ENOENT, self.path

    def __str__(self) -> str:
        return str(self.args[0])


class OtherFileError(_PathError):
    """Under this path, a worker of a cluster does not see the file that the driver saw when it planned."""


class WorkerError(StratalogError):
    """A task of a cluster failed. The log that it worked on is unchanged, and work on other logs goes on."""


class PreconditionError(StratalogError):
    """A file is not as it was when the plan was made: another program changes the directory.

    `expected` and `found` say how it should be and how it is, as text.
    """

    def __init__(self, path: str | os.PathLike[str], expected: str, found: str) -> None:
        self.path = os.fspath(path)
        self.expected = expected
        self.found = found
        super().__init__(
            f"{self.path}: expected {expected}, found {found}. Something else changes this directory; "
            "nothing more was done. Make sure that no broker or tool uses it, then run again."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.expected, self.found)


class QuarantineError(_PathError):
    """Bytes to be cut off cannot be kept, or kept bytes cannot be restored."""


class QuarantineFullError(QuarantineError):
    """There is no room to keep the bytes that would be cut off. Raised before the cut."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        needed: int,
        free: int,
        advice: str = "name a directory on another disk with --quarantine, or give up these bytes with "
        "--no-quarantine.",
    ) -> None:
        self.needed = needed
        self.free = free
        self.advice = advice
        super().__init__(
            path,
            f"{needed} bytes are to be kept in quarantine before they are cut off, and {free} are free here. "
            f"Nothing was cut. Free some space, {advice}",
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.needed, self.free, self.advice)


class WrongProcessError(StratalogError):
    """A forked child tries to change a log that its parent has open; `opener` is the parent's process id."""

    def __init__(self, path: str | os.PathLike[str], opener: int, pid: int) -> None:
        self.path = os.fspath(path)
        self.opener = opener
        self.pid = pid
        super().__init__(
            f"{self.path}: process {opener} has this open, and process {pid}, which was forked from it, may "
            "not change it: they would overwrite each other's records. Reading works. Write in the process "
            "that opened the log, or open the log after the fork, in the one process that writes."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.opener, self.pid)
