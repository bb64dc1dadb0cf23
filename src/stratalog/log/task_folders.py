"""The folders in which tasks of a cluster write new segments, below the directory of their partition.

A broker ignores them. A run removes its own folders at its end. If a run was killed, or a task was given up
but continued to write, their folders remain. They hold copies of records, so the next recovery or operation
removes them.
"""

from __future__ import annotations

from contextlib import suppress

from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from stratalog.files.entries import EntryKind
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader

FOLDER_PREFIX = "stratalog-compacting-"


def task_folders(disk: DiskReader, directory: str) -> list[str]:
    """The folders of tasks in the directory of a partition; a link is not one of them."""
    return [
        join_path(directory, entry.name)
        for entry in disk.list_directory(directory)
        if entry.kind is EntryKind.DIRECTORY and not entry.is_symlink and entry.name.startswith(FOLDER_PREFIX)
    ]


def remove_task_folders(disk: Disk, directory: str) -> list[str]:
    """Remove them, and return those that were removed. The caller has locked the log directory.

    A task that nobody waits for any more may still write: its folder is left to the next run.
    """
    removed = []
    for folder in task_folders(disk, directory):
        with suppress(DiskError):
            _remove(disk, folder)
            removed.append(folder)
    return removed


def _remove(disk: Disk, directory: str) -> None:
    for entry in disk.list_directory(directory):
        path = join_path(directory, entry.name)
        if entry.kind is EntryKind.DIRECTORY and not entry.is_symlink:
            _remove(disk, path)
        else:
            disk.delete(path)
    disk.remove_directory(directory)
