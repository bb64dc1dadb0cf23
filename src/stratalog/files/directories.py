"""Creates directories and their missing parents."""

from __future__ import annotations

import os

from stratalog.files.disk import Disk
from stratalog.files.paths import parent_path


def make_directories(disk: Disk, directory: str) -> None:
    """Create a directory and its missing parents; they are on the device when this returns."""
    for parent in sorted(make_unsynced_directories(disk, directory)):
        disk.sync_directory(parent)


def make_unsynced_directories(disk: Disk, directory: str) -> set[str]:
    """The same without syncing: returns the directories that the caller must sync."""
    if disk.exists(directory):
        return set()
    parent = parent_path(directory)
    changed = make_unsynced_directories(disk, parent) if parent and parent != directory else set()
    if disk.make_directory(directory):
        changed.add(parent or os.curdir)
    return changed
