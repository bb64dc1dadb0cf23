"""Finds batches whose offsets are far ahead of those of the batches after them.

No checksum covers the base offset of a batch. If it is damaged, the batch looks whole, and all batches after
it seem to go backwards. So such a batch is left out, like one with a wrong checksum, and the batches after it
are compared with the ones before it.

A segment is read in parts, so the batches after a wrong one may be in the next part. Therefore, if the last
batches of a part follow a gap, the batches after the part are looked at before the part is judged. The result
is the same for parts of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from stratalog.limits import INT32_MAX
from stratalog.operations.audit.rows import RowChecks
from stratalog.records.kernels.walk import BatchTable

MOST_AHEAD = 8  # neighbours with damaged base offsets
_MOST_COMPARED = 2 + 2 * MOST_AHEAD  # batches after them that show which ones are wrong
_MOST_AFTER = MOST_AHEAD + _MOST_COMPARED

_Offsets = NDArray[np.int64]
RowsAfter = Callable[[], Iterable[BatchTable]]
"""The valid batches after a part, up to damage that hides where the next one begins; tables of any size."""

_NOTHING: _Offsets = np.empty(0, np.int64)


class AheadRows:
    """Finds such batches part by part; `checks` has the segment, and the last offset before the first part.

    A few batches are ahead if they begin after a gap, and most of the batches after them fit into that gap.
    Otherwise the batch that goes back is the wrong one.
    """

    def __init__(self, checks: RowChecks) -> None:
        self._checks = checks
        self.begin()

    def begin(self) -> None:
        """The next rows are not compared with those before them: they are the first, or follow damage."""
        self._base = self._last = _NOTHING  # of the last rows before the next part
        self._last_before = self._checks.last_offset  # of the row before these
        self._last_found = -1  # the last of these rows that is ahead, or a negative number

    def find(self, rows: BatchTable, rows_after: RowsAfter) -> list[int]:
        """The numbers of such rows among the next ones."""
        if not len(rows):
            return []
        known_count = len(self._base)
        base = np.concatenate((self._base, rows["base_offset"]))
        last = np.concatenate((self._last, rows["last_offset"]))
        end = len(base)
        is_far = self._checks.next_base is not None and _is_far(int(last[-1]), self._checks)
        if is_far or self._is_open(base, last):
            base, last = self._with_rows_after(base, last, rows_after)
        found: list[int] = []
        last_found = carried = self._last_found
        for number in np.flatnonzero(base[1:] <= last[:-1]).tolist():
            if number < known_count - 1:
                continue
            run = _run(base, last, number, self._last_before)
            if run is not None and last_found < run[0]:
                found += run
                last_found = run[-1]
            if number < end - 1:
                carried = last_found  # the later ones are judged again with the next part
        if is_far and end == len(base) and last[-1] >= (self._checks.next_base or 0):
            # It is the last one here. The indexes of no segment can have such an offset, and this one has
            # ended.
            found.append(end - 1)
        self._keep(base[:end], last[:end], carried)
        return [number - known_count for number in found if known_count <= number < end]

    def _is_open(self, base: _Offsets, last: _Offsets) -> bool:
        """Whether later rows may show that one of the last rows is ahead."""
        start = max(0, len(base) - MOST_AHEAD)
        before = self._last_before if not start else last[start - 1]
        reached = np.concatenate(([before], last[start:-1]))
        return bool((base[start:] > reached + 1).any()) or _goes_back(base, last, len(base))

    def _with_rows_after(
        self, base: _Offsets, last: _Offsets, rows_after: RowsAfter
    ) -> tuple[_Offsets, _Offsets]:
        """The offsets with those of as many rows after them as can matter."""
        end = len(base)
        for rows in rows_after():
            base = np.concatenate((base, rows["base_offset"]))
            last = np.concatenate((last, rows["last_offset"]))
            after_count = len(base) - end
            if after_count >= _MOST_AFTER:
                break
            if after_count >= MOST_AHEAD and not _goes_back(base, last, end):
                break
        return base, last

    def _keep(self, base: _Offsets, last: _Offsets, last_found: int) -> None:
        """Keep the rows that a run of rows in the next part can begin with."""
        left_count = max(0, len(base) - MOST_AHEAD)
        if left_count:
            self._last_before = int(last[left_count - 1])
        self._base, self._last = base[left_count:].copy(), last[left_count:].copy()
        self._last_found = last_found - left_count


def is_followed_by_lower(last_offset: int, rows_after: RowsAfter) -> bool:
    """Whether one of the next rows goes back, so that rows up to this offset may be ahead of it."""
    base = last = np.array([last_offset], np.int64)
    for rows in rows_after():
        base = np.concatenate((base, rows["base_offset"]))
        last = np.concatenate((last, rows["last_offset"]))
        if len(base) > MOST_AHEAD:
            break
    return _goes_back(base, last, 1)


def _goes_back(base: _Offsets, last: _Offsets, end: int) -> bool:
    """Whether a row goes back that is so near to rows[:end] that it and they are not judged without it."""
    first = max(0, end - 1 - _MOST_COMPARED)
    after = min(len(base), end + MOST_AHEAD)
    return bool((base[first + 1 : after] <= last[first : after - 1]).any())


def _run(base: NDArray[np.int64], last: NDArray[np.int64], number: int, last_before: int) -> list[int] | None:
    """The rows up to this one that are ahead of the row after it; None if that row is the wrong one."""
    following = int(base[number + 1])
    for first in range(number, max(number - MOST_AHEAD, -1), -1):
        reached = int(last[first - 1]) if first else last_before
        if reached >= following:
            continue
        count = number - first + 1
        after = base[number + 1 : number + 3 + 2 * count]
        fitting_count = int(((after > reached) & (after < base[first])).sum())
        is_ahead = (
            reached + 1 < base[first]
            and following < base[first]
            and fitting_count >= count
            and 2 * fitting_count > len(after)
        )
        return [*range(first, number + 1)] if is_ahead else None
    return None


def _is_far(last_offset: int, checks: RowChecks) -> bool:
    """Whether the indexes of the segment cannot have this offset."""
    return last_offset - checks.base_offset > INT32_MAX


def is_far(row: np.void, checks: RowChecks, *, has_damage: bool) -> bool:
    """Whether a recovery that salvages removes such a batch.

    It finds an offset that is too far from the segment's base. After other damage, it keeps only batches with
    offsets of this segment.
    """
    last = int(row["last_offset"])
    is_outside = checks.next_base is not None and last >= checks.next_base
    return _is_far(last, checks) or (has_damage and is_outside)
