"""Answers the question of the cleaner's second pass for each record: is there a newer one with the same key?

The cleaner itself uses an `OffsetMap`. A cluster aggregates the keys, and gives only the offsets of the
records that are replaced.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stratalog.limits import INT64_MAX
from stratalog.log.cleaning.runs import DecodedRun, HashRows

NO_OFFSET = -1


class NewerRecords(Protocol):
    """`latest_offset` is the last offset that was looked at: later records stay as they are.

    `hash_rows` hashes the keys of a run, for segments for which `needs_hashes` is true.
    """

    @property
    def latest_offset(self) -> int: ...

    @property
    def hash_rows(self) -> HashRows | None: ...

    def needs_hashes(self, base_offset: int) -> bool:
        """Whether `find` needs the hashes of the keys of the segment with this base offset."""

    def find(self, run: DecodedRun, found: NDArray[np.int64]) -> None:
        """Write for each row a later offset if a newer record replaces it, else its own offset or -1."""


class ReplacedRecords:
    """The offsets of those records of some segments that newer records replace."""

    hash_rows: HashRows | None = None

    def __init__(self, offsets: NDArray[np.int64], latest_offset: int) -> None:
        self._offsets = np.unique(offsets)
        self.latest_offset = latest_offset

    def needs_hashes(self, base_offset: int) -> bool:  # noqa: ARG002 (as in the protocol)
        return False

    def find(self, run: DecodedRun, found: NDArray[np.int64]) -> None:
        """Write INT64_MAX for each record that a newer one replaces, and -1 for all others."""
        offsets = run.rows["offset"]
        places = np.searchsorted(self._offsets, offsets)
        is_inside = places < len(self._offsets)
        found[:] = NO_OFFSET
        replaced = np.zeros(len(offsets), np.bool_)
        replaced[is_inside] = self._offsets[places[is_inside]] == offsets[is_inside]
        found[replaced] = INT64_MAX
