"""What tells the files of a segment from others that get their names."""

from __future__ import annotations

from typing import NamedTuple

from stratalog.files.disk import ExpectedFile


class Identities(NamedTuple):
    """What tells the files of a segment from others that get their names; None where that is not known.

    Needed where somebody else renames the files. What this process renames is seen by the segment itself.
    """

    log: ExpectedFile | None = None
    offset_index: ExpectedFile | None = None
    time_index: ExpectedFile | None = None
    txn_index: ExpectedFile | None = None


NO_IDENTITIES = Identities()
