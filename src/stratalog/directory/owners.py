"""Whose files are in a log directory, and whether that can stay so when some of them are written anew.

A broker of another user must start after root recovered its directory: root gives what it writes to the owner
of what it replaces. Anybody else owns what they write, so they may only change what is theirs already.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from stratalog.directory.layout import Layout
from stratalog.errors import FileOwnerError
from stratalog.files.entries import EntryKind
from stratalog.files.reading import DiskReader

ROOT = 0


def current_user() -> int:
    """The user that files written now belong to."""
    return os.geteuid() if hasattr(os, "geteuid") else ROOT


def current_groups() -> frozenset[int]:
    """The groups that files written now can be given to, unless root writes them."""
    return frozenset({os.getegid(), *os.getgroups()}) if hasattr(os, "getegid") else frozenset()


def check_owners(disk: DiskReader, layout: Layout, user: int, groups: Collection[int]) -> str | None:
    """FileOwnerError unless whatever may be changed in the log directory keeps its owner.

    Returns a sentence on groups that it cannot keep, if there are any: the broker is the owner, and reads and
    writes its files whatever their group.
    """
    if user == ROOT:
        return None
    others: dict[int, str] = {}  # a path of each group
    for directory in (layout.directory, *(layout.path(entry) for entry in layout.partitions)):
        names = [entry.name for entry in disk.list_directory(directory) if entry.kind is EntryKind.FILE]
        for path in (directory, *(f"{directory}{os.sep}{name}" for name in names)):
            status = disk.status(path)
            if status is None:
                continue
            if status.user != user:
                raise FileOwnerError(path, status.user, user)
            if status.group not in groups:
                others.setdefault(status.group, path)
    if not others:
        return None
    words = ", ".join(f"{group} ({path}, for one)" for group, path in sorted(others.items()))
    return (
        f"{layout.directory}: user {user} is not in group {words}. What is written here gets another group; "
        "owner and permissions stay."
    )
