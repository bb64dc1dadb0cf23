"""Finds batches whose offsets are far ahead of those of the batches after them.

No checksum covers the base offset of a batch. If it is damaged, the batch looks whole, and all batches after
it seem to go backwards. So such a batch is left out, like one with a wrong checksum, and the batches after it
are compared with the ones before it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stratalog.limits import INT32_MAX
from stratalog.operations.audit.rows import RowChecks
from stratalog.records.kernels.walk import BatchTable

MOST_AHEAD = 8  # neighbours with damaged base offsets


def find_ahead(rows: BatchTable, checks: RowChecks) -> list[int]:
    """The numbers of such rows; `checks` has the segment, and the last offset before these rows.

    A few batches are ahead if they begin after a gap, and most of the batches after them fit into that gap.
    Otherwise the batch that goes back is the wrong one.
    """
    base, last = rows["base_offset"], rows["last_offset"]
    found: list[int] = []
    for number in np.flatnonzero(base[1:] <= last[:-1]).tolist():
        run = _run(base, last, number, checks.last_offset)
        if run is not None and not (found and found[-1] >= run[0]):
            found += run
    end = len(rows) - 1
    if end >= 0 and checks.next_base is not None and int(last[end]) - checks.base_offset > INT32_MAX:
        # It is the last one here. The indexes of no segment can have such an offset, and this one has ended.
        found += [end] if last[end] >= checks.next_base else []
    return found


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


def is_far(row: np.void, checks: RowChecks, *, has_damage: bool) -> bool:
    """Whether a recovery that salvages removes such a batch.

    It finds an offset that is too far from the segment's base. After other damage, it keeps only batches with
    offsets of this segment.
    """
    last = int(row["last_offset"])
    is_outside = checks.next_base is not None and last >= checks.next_base
    return last - checks.base_offset > INT32_MAX or (has_damage and is_outside)
