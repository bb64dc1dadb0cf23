"""Directories with those above them."""

from __future__ import annotations

import os

from stratalog.files.disk import Disk
from stratalog.files.paths import parent_path


def make_directories(disk: Disk, directory: str) -> None:
    """Make a directory, and those above it, if need be; on the device when this returns."""
    for parent in sorted(make_unsynced_directories(disk, directory)):
        disk.sync_directory(parent)


def make_unsynced_directories(disk: Disk, directory: str) -> set[str]:
    """The same for a caller who syncs later: returns the directories whose entries were changed."""
    if disk.exists(directory):
        return set()
    parent = parent_path(directory)
    changed = make_unsynced_directories(disk, parent) if parent and parent != directory else set()
    if disk.make_directory(directory):
        changed.add(parent or os.curdir)
    return changed
