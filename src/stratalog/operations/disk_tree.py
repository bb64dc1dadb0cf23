"""The files of log directories as a tree with their sizes: what `du` adds up, and what ncdu reads.

`size` is the length of a file, `disk_size` the space that it takes on the disk: an index that a broker has
preallocated with zeros takes nearly nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from stratalog.errors import DiskError
from stratalog.files.entries import DirectoryEntry, EntryKind, inode_of
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.version import __version__


@dataclass(slots=True, kw_only=True)
class DiskFolder:
    """A folder: its files, and the folders in it. `error` says why it could not be listed."""

    path: str
    name: str
    files: list[DirectoryEntry] = field(default_factory=list)
    folders: list[DiskFolder] = field(default_factory=list)
    error: str | None = None

    def every_file(self) -> Iterator[DirectoryEntry]:
        """Its own files, and those of all folders below it."""
        yield from self.files
        for folder in self.folders:
            yield from folder.every_file()

    def every_error(self) -> Iterator[tuple[str, str]]:
        """(path, why) of each folder that could not be listed."""
        if self.error is not None:
            yield self.path, self.error
        for folder in self.folders:
            yield from folder.every_error()


def read_tree(disk: DiskReader, path: str) -> DiskFolder:
    """The tree below a log directory. A broker may delete files meanwhile: they are left out.

    A partition may be a link to another place; other links are not followed.
    """
    root = _read(disk, path, path, is_root=True)
    assert root is not None
    return root


def _read(disk: DiskReader, path: str, name: str, *, is_root: bool = False) -> DiskFolder | None:
    found = DiskFolder(path=path, name=name)
    try:
        entries = disk.list_directory(path)
    except DiskError as error:
        if error.errno == errno.ENOENT and not is_root:
            return None
        found.error = str(error)
        return found
    for entry in entries:
        if entry.kind is EntryKind.DIRECTORY and (is_root or not entry.is_symlink):
            folder = _read(disk, join_path(path, entry.name), entry.name)
            if folder is not None:
                found.folders.append(folder)
        elif entry.kind is EntryKind.FILE:
            found.files.append(entry)
    return found


def ncdu_document(trees: list[DiskFolder], now_ms: int) -> list[object]:
    """The trees in the format that `ncdu -f` reads: https://dev.yorhel.nl/ncdu/jsonfmt

    Several directories are shown as folders of the nearest directory that contains all of them.
    """
    facts = {"progname": "stratalog", "progver": __version__, "timestamp": now_ms // 1000}
    if len(trees) == 1:
        root = _ncdu_folder(trees[0], trees[0].path)
    else:
        above = os.path.commonpath([tree.path for tree in trees])
        root = [{"name": above}, *(_ncdu_folder(tree, os.path.relpath(tree.path, above)) for tree in trees)]
    return [1, 2, facts, root]


def _ncdu_folder(folder: DiskFolder, name: str) -> list[object]:
    facts: dict[str, object] = {"name": name}
    if folder.error is not None:
        facts["read_error"] = True
    files = (
        {
            "name": file.name,
            "asize": file.size,
            "dsize": file.disk_size,
            "ino": inode_of(file.id),
        }
        for file in folder.files
    )
    return [facts, *files, *(_ncdu_folder(each, each.name) for each in folder.folders)]
