"""Which records are to be erased: those with one of these keys, and those at these offsets.

Keys are looked up in the cleaner's offset map. Its hash has 128 bits and a fresh random key, so no record can
be made to look like another. Rewritten batches are compared again with the keys themselves, in plain Python
(`erase_proof.py`). A transaction's marker is never selected: it holds no data of a producer, and without it
the records of the transaction would change their meaning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratalog.errors import CorruptRecordError, StratalogError, UsageError
from stratalog.limits import INT64_MAX
from stratalog.log.cleaning.offset_map import SLOT_SIZE, OffsetMap
from stratalog.log.cleaning.runs import DecodedRun, RunReader
from stratalog.records.build import Record
from stratalog.records.kernels.walk import CONTROL

ErasedRange = tuple[int, int]  # first and last offset, both included


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Keys, and ascending ranges of offsets that do not touch; created by `of`."""

    keys: frozenset[bytes]
    ranges: tuple[ErasedRange, ...] = field(default=())

    @classmethod
    def of(cls, keys: Iterable[bytes] = (), ranges: Iterable[ErasedRange] = ()) -> Selection:
        """UsageError if nothing is named, or a range is not valid."""
        merged: list[ErasedRange] = []
        for first, last in sorted(ranges):
            if not 0 <= first <= last <= INT64_MAX:
                raise UsageError(
                    f"{first}-{last} is not a range of offsets: write the first and the last, as in 5-7."
                )
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
            else:
                merged.append((first, last))
        found = cls(keys=frozenset(keys), ranges=tuple(merged))
        if not found.keys and not found.ranges:
            raise UsageError("name the records to erase, by their keys or by their offsets.")
        return found

    def has(self, record: Record) -> bool:
        """Whether this record is selected, by plain comparison."""
        return record.key in self.keys or any(first <= record.offset <= last for first, last in self.ranges)

    def may_reach(self, first_offset: int, end_offset: int | None) -> bool:
        """Whether a selected record can be in [first_offset, end_offset); a key can be anywhere."""
        return bool(self.keys) or any(
            last >= first_offset and (end_offset is None or first < end_offset) for first, last in self.ranges
        )


def hash_of_key(key: bytes) -> str:
    """A key in `stratalog-erased.jsonl`: a known key can be looked up, but the key itself is not kept."""
    return hashlib.sha256(key).hexdigest()


class Found(NamedTuple):
    """The number of records to erase from a file, and of markers at named offsets, which stay.

    `problem` says why some records cannot be read, and so cannot be searched.
    """

    records_count: int = 0
    markers_count: int = 0
    problem: CorruptRecordError | None = None
    last_offset: int = -1


def _uncounted(size: int) -> None:
    """The default for `on_read`: does nothing."""


class Matcher:
    """Finds the records of a selection in the runs of its reader; for one thread at a time.

    `known` has, by path, what was found in files that were searched before, or why their search failed.
    """

    __slots__ = ("_ends", "_found", "_map", "_starts", "known", "on_read", "reader", "selection")

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.known: Mapping[str, Found | StratalogError] = {}
        self.on_read: Callable[[int], object] = _uncounted  # called with the number of bytes read from a file
        self._map: OffsetMap | None = None
        if selection.keys:
            self._map = OffsetMap(SLOT_SIZE * (2 * len(selection.keys) + 4))
            self._map.put_keys(sorted(selection.keys))
        self.reader = RunReader(None if self._map is None else self._map.hash_rows)
        self._starts = np.array([first for first, _ in selection.ranges], np.int64)
        self._ends = np.array([last for _, last in selection.ranges], np.int64)
        self._found = np.empty(0, np.int64)

    def match(self, run: DecodedRun) -> tuple[NDArray[np.bool_], int]:
        """Which rows are erased, and how many markers at named offsets stay."""
        rows = run.rows
        found = np.zeros(len(rows), np.bool_)
        if not len(rows):
            return found, 0
        if len(self._starts):
            places = np.searchsorted(self._starts, rows["offset"], "right") - 1
            found |= (places >= 0) & (rows["offset"] <= self._ends[places])
        is_marker = ((run.batches["magic"] == 2) & (run.batches["attributes"] & CONTROL != 0))[rows["batch"]]
        markers_count = int((found & is_marker).sum())
        if self._map is not None:
            found |= self._has_key(self._map, run)
        return found & ~is_marker, markers_count

    def _has_key(self, offset_map: OffsetMap, run: DecodedRun) -> NDArray[np.bool_]:
        count = len(run.rows)
        if count > len(self._found):
            self._found = np.empty(2 * count, np.int64)
        found = self._found[:count]
        offset_map.get_offsets(run.hashes, found)
        has: NDArray[np.bool_] = (found >= 0) & (run.rows["key_size"] >= 0)
        return has
