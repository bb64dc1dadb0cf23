"""Who owns the files of a log directory, and whether rewritten files can keep their owner.

A broker that runs as another user must be able to start after root has recovered its directory. So a file
that root writes is given to the owner of the file that it replaces. A user other than root owns every file
that it writes. So it is refused unless it already owns all files that it would replace.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from stratalog.directory.cluster_metadata import BOOTSTRAP_CHECKPOINT, METADATA_DIRECTORY
from stratalog.directory.layout import Layout
from stratalog.errors import AccessDeniedError, DiskError, FileOwnerError
from stratalog.files.entries import EntryKind, FileStatus
from stratalog.files.names import LOCK, META_PROPERTIES, OFFSET_CHECKPOINTS, FileKind
from stratalog.files.paths import join_path, parent_path, prefix_of
from stratalog.files.reading import DiskReader

ROOT = 0
_READ, _WRITE, _ENTER = 0o4, 0o6, 0o7  # each includes the permission before it
_LIST = 0o5


class Unusable(NamedTuple):
    """A file or folder that the broker's user needs but has no permission to use."""

    path: str
    status: FileStatus
    user: int


def current_user() -> int:
    """The user who would own a file written now."""
    return os.geteuid() if hasattr(os, "geteuid") else ROOT


def current_groups() -> frozenset[int]:
    """The groups that this user can give files to; root can use any group."""
    return frozenset({os.getegid(), *os.getgroups()}) if hasattr(os, "getegid") else frozenset()


def check_owners(disk: DiskReader, layout: Layout, user: int, groups: Collection[int]) -> str | None:
    """FileOwnerError unless every file that may be changed in the log directory can keep its owner.

    Returns a sentence on groups that cannot be kept, if there are any. They do not matter to the broker: it
    owns its files, and reads and writes them whatever their group.
    """
    if user == ROOT:
        return None
    others: dict[int, str] = {}  # by group, one path each
    for path, status in _all_of(disk, layout):
        if status.user != user:
            raise FileOwnerError(path, status.user, user)
        if status.group not in groups:
            others.setdefault(status.group, path)
    if not others:
        return None
    words = ", ".join(f"{group} (the group of {path}, for example)" for group, path in sorted(others.items()))
    return (
        f"{layout.directory}: user {user} is not in group {words}. Files that are written here get another "
        "group; their owner and permissions are kept."
    )


def out_of_reach(disk: DiskReader, layout: Layout) -> Iterator[Unusable]:
    """Paths of a log directory that a broker needs but has no permission to use.

    It reads all files of a partition, and opens all logs and the newest indexes for writing. Folders marked
    -stray are loaded like partitions; in folders marked -delete it writes no index.
    """
    loaded = [*(entry.name for entry in layout.partitions), *layout.strays]
    needed = {LOCK: _WRITE, **dict.fromkeys((META_PROPERTIES, *OFFSET_CHECKPOINTS), _READ)}
    yield from _out_of_reach(disk, layout.directory, needed, loaded, layout.waiting)


def metadata_out_of_reach(disk: DiskReader, directory: str) -> Iterator[Unusable]:
    """The same of the cluster's metadata, in the directory in which the broker looks for it.

    A broker loads its folder like a partition.
    """
    status = disk.status(join_path(directory, METADATA_DIRECTORY))
    is_folder = status is not None and status.kind is EntryKind.DIRECTORY
    needed = {LOCK: _WRITE, META_PROPERTIES: _READ, BOOTSTRAP_CHECKPOINT: _READ}
    yield from _out_of_reach(disk, directory, needed, [METADATA_DIRECTORY] * is_folder)


def _out_of_reach(
    disk: DiskReader,
    directory: str,
    needed_of: Mapping[str, int],
    loaded: Iterable[str],
    waiting: Iterable[str] = (),
) -> Iterator[Unusable]:
    """What the broker's user may not use: the directory, these files in it, and everything in these folders.

    The broker's user is assumed to be the owner of the directory. Its groups are not known, so it is assumed
    to have the permissions of any group.
    """
    root = disk.status(directory)
    if root is None or root.user == ROOT:
        return
    needs = [(directory, _ENTER), *((path, needed_of.get(name, 0)) for path, name in _files(disk, directory))]
    for folder in (join_path(directory, name) for name in loaded):
        indexes = _newest_segment(disk, folder)
        needs.append((folder, _ENTER))
        needs += [(path, _needed(name, indexes)) for path, name in _files(disk, folder)]
    for folder in (join_path(directory, name) for name in waiting):
        needs.append((folder, _LIST))
        needs += [(path, _needed(name)) for path, name in _files(disk, folder)]
    for path, needed in needs:
        status = disk.status(path)
        if status is not None and not _permits(status, root.user, needed):
            yield Unusable(path, status, root.user)


def _needed(name: str, indexes: Collection[str] = ()) -> int:
    """What a broker does with a file of a log; `indexes` are those that it opens for writing."""
    return _WRITE if name.endswith(FileKind.LOG.value) or name in indexes else _READ


def is_refused_only_here(disk: DiskReader, directory: str, error: DiskError) -> bool:
    """Whether the broker's user may read what this user may not, as far as owners and modes show.

    Then the error says nothing about the broker. The broker's user is assumed to be the owner of the log
    directory.
    """
    if not isinstance(error, AccessDeniedError):
        return False
    owner = owner_of(disk, directory)
    if owner is None or owner == ROOT:
        return True
    if owner == current_user():
        return False
    path = error.path
    while True:
        with suppress(DiskError):  # this user may not enter its folder, which is looked at next
            status = disk.status(path)
            if status is not None:
                needed = _LIST if status.kind is EntryKind.DIRECTORY else _READ
                if not _permits(status, owner, needed):
                    return False
        if not path.startswith(prefix_of(directory)):
            return True
        path = parent_path(path)


def owner_of(disk: DiskReader, path: str) -> int | None:
    """The user who owns a file or directory; None if that cannot be seen."""
    with suppress(DiskError):
        status = disk.status(path)
        return None if status is None else status.user
    return None


def _permits(status: FileStatus, user: int, needed: int) -> bool:
    bits = status.mode >> 6 if status.user == user else status.mode >> 3 | status.mode
    return bits & needed == needed


def _newest_segment(disk: DiskReader, partition: str) -> tuple[str, ...]:
    """The names of the indexes that the newest segment has."""
    names = disk.list_sizes(partition, FileKind.LOG.value)
    stem = max((name for name in names if name.endswith(FileKind.LOG.value)), default="").removesuffix(
        FileKind.LOG.value
    )
    return tuple(f"{stem}{kind.value}" for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX))


def _all_of(disk: DiskReader, layout: Layout) -> Iterator[tuple[str, FileStatus]]:
    """The log directory, its partitions and the files in them."""
    for directory in (layout.directory, *(layout.path(entry) for entry in layout.partitions)):
        for path in (directory, *(path for path, _ in _files(disk, directory))):
            status = disk.status(path)
            if status is not None:
                yield path, status


def _files(disk: DiskReader, folder: str) -> Iterator[tuple[str, str]]:
    """The path and the name of each file in a folder."""
    for entry in disk.list_directory(folder):
        if entry.kind is EntryKind.FILE:
            yield join_path(folder, entry.name), entry.name
