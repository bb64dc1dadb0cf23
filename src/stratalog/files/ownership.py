"""The owner of created files: after root has repaired a directory, the broker's user must be able to use it.

A file gets the owner, group and mode of the file it replaces, else those of its directory without the execute
permission. A directory gets those of the directory above it.

A user other than root can only give files to their own groups. Failing to keep the group is not an error:
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
    """Owner, group and mode of a new file or directory."""

    user: int
    group: int
    mode: int


def ownership_for_file(path: str) -> Ownership | None:
    """From the file at `path`, if any, else from its directory; None: keep the default. Raises OSError."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return _of_directory(parent_path(path) or ".", _FILE_BITS)
    return Ownership(found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode))


def ownership_for_directory(path: str) -> Ownership | None:
    """From the directory above; None: keep the default. Raises OSError."""
    return _of_directory(parent_path(path) or ".", _DIRECTORY_BITS)


def who_cannot_give(owner: int, mode: int) -> int | None:
    """The id of this user if it cannot give files to this owner of a directory; None if it can."""
    if not hasattr(os, "geteuid") or mode & stat.S_ISVTX:
        return None
    user = os.geteuid()
    return None if user in (0, owner) else user


def hand_over(descriptor: int, wanted: Ownership | None, *, required: bool) -> None:
    """Give an open file or directory to its owner.

    In general only root can do that, so a refusal is ignored unless `required` is set; then it raises
    OSError.
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
    # A directory like /tmp is shared: a file created there belongs to its creator.
    if found.st_mode & stat.S_ISVTX:
        return None
    return Ownership(found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode) & bits)


def _hand_over(descriptor: int, wanted: Ownership) -> None:
    found = os.fstat(descriptor)
    mode = found.st_mode
    try:
        if found.st_gid != wanted.group:
            with suppress(PermissionError):
                os.fchown(descriptor, -1, wanted.group)
        if found.st_uid != wanted.user:
            os.fchown(descriptor, wanted.user, -1)
    finally:
        # The mode is set after the owner, because changing the owner clears the setgid bit.
        if (found.st_uid, found.st_gid) != (wanted.user, wanted.group):
            mode = os.fstat(descriptor).st_mode
        if stat.S_IMODE(mode) != wanted.mode:
            os.fchmod(descriptor, wanted.mode)
