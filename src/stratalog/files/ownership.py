"""Who owns what is created: a broker of another user must start after root repaired its directory.

A file takes owner, group and mode of the file it replaces, else of its directory, without the right to be
executed. A directory takes those of the directory above it.

Anybody but root can only give files to groups that they are in. Failing to keep the group is not an error:
the owner can still read and write the file.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import NamedTuple

from stratalog.files.paths import parent_path

_FILE_BITS = 0o666
_DIRECTORY_BITS = 0o2777  # with setgid, by which a team shares its directories


class Ownership(NamedTuple):
    """What a new file or directory gets."""

    user: int
    group: int
    mode: int


def ownership_for_file(path: str) -> Ownership | None:
    """That of the file at `path` if there is one, else of its directory; None to leave it. Raises OSError."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return _of_directory(parent_path(path) or ".", _FILE_BITS)
    return Ownership(found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode))


def ownership_for_directory(path: str) -> Ownership | None:
    """That of the directory above; None to leave it. Raises OSError."""
    return _of_directory(parent_path(path) or ".", _DIRECTORY_BITS)


def hand_over(descriptor: int, wanted: Ownership | None, *, required: bool) -> None:
    """Give an open file or directory to its owner.

    Only root can in general, so a refusal is no error, unless it is `required`: then it raises OSError.
    """
    if wanted is None or not hasattr(os, "fchown"):
        return
    try:
        _hand_over(descriptor, wanted)
    except PermissionError:
        if required:
            raise


def _of_directory(path: str, bits: int) -> Ownership | None:
    found = os.stat(path)
    # A directory like /tmp is everyone's: what is created there belongs to whoever creates it.
    if found.st_mode & stat.S_ISVTX:
        return None
    return Ownership(found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode) & bits)


def _hand_over(descriptor: int, wanted: Ownership) -> None:
    found = os.fstat(descriptor)
    try:
        if found.st_gid != wanted.group:
            with suppress(PermissionError):
                os.fchown(descriptor, -1, wanted.group)
        if found.st_uid != wanted.user:
            os.fchown(descriptor, wanted.user, -1)
    finally:
        # After the owner: changing that clears the setgid bit.
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != wanted.mode:
            os.fchmod(descriptor, wanted.mode)
