"""Whose files are in a log directory, and whether that can stay so when some of them are written anew.

A broker of another user must start after root recovered its directory: root gives what it writes to the owner
of what it replaces. Anybody else owns what they write, so they may only change what is theirs already.
"""

from __future__ import annotations

import os

from stratalog.directory.layout import Layout
from stratalog.errors import FileOwnerError
from stratalog.files.entries import EntryKind
from stratalog.files.reading import DiskReader

ROOT = 0


def current_user() -> int:
    """The user that files written now belong to."""
    return os.geteuid() if hasattr(os, "geteuid") else ROOT


def check_owners(disk: DiskReader, layout: Layout, user: int) -> None:
    """FileOwnerError unless whatever may be changed in the log directory keeps its owner."""
    if user == ROOT:
        return
    for directory in (layout.directory, *(layout.path(entry) for entry in layout.partitions)):
        _check(disk, directory, user)
        for entry in disk.list_directory(directory):
            if entry.kind is EntryKind.FILE:
                _check(disk, f"{directory}{os.sep}{entry.name}", user)


def _check(disk: DiskReader, path: str, user: int) -> None:
    status = disk.status(path)
    if status is not None and status.user != user:
        raise FileOwnerError(path, status.user, user)
