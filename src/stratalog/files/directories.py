"""Creates directories and their missing parents; removes a directory with everything below it."""

from __future__ import annotations

import os

from stratalog.files.disk import Disk
from stratalog.files.entries import DirectoryEntry, EntryKind
from stratalog.files.paths import join_path, parent_path


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


def remove_directory(disk: Disk, path: str) -> bool:
    """Remove a directory and everything below it; False if there is none. Links are not followed.

    Kafka: Utils.delete
    """
    parent, name = os.path.split(path)
    found = next((entry for entry in disk.list_directory(parent) if entry.name == name), None)
    if found is None:
        return False
    _remove(disk, parent, found)
    disk.sync_directory(parent)
    return True


def _remove(disk: Disk, parent: str, entry: DirectoryEntry) -> None:
    path = join_path(parent, entry.name)
    if entry.kind is not EntryKind.DIRECTORY or entry.is_symlink:
        disk.delete(path)
        return
    for inner in disk.list_directory(path):
        _remove(disk, path, inner)
    disk.remove_directory(path)
