"""Identities that distinguish the files of a segment from later files with the same names."""

from __future__ import annotations

from typing import NamedTuple

from stratalog.files.disk import ExpectedFile


class Identities(NamedTuple):
    """The identities of a segment's files; later files with the same names have others. None if unknown.

    Needed if another process renames the files. The segment itself notices renames by this process.
    """

    log: ExpectedFile | None = None
    offset_index: ExpectedFile | None = None
    time_index: ExpectedFile | None = None
    txn_index: ExpectedFile | None = None


NO_IDENTITIES = Identities()
