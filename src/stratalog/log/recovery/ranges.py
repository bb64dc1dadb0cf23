"""Ranges of a file, as lists in the file's order: joining and subtracting."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

ByteRange = tuple[int, int]  # position, size
Numbers = NDArray[np.int64]


def merged(positions: Numbers, sizes: Numbers) -> list[ByteRange]:
    """The ranges; neighbours without a gap become one."""
    if not len(positions):
        return []
    ends = positions + sizes
    firsts = np.flatnonzero(np.concatenate([[True], positions[1:] != ends[:-1]]))
    lasts = np.concatenate([firsts[1:] - 1, [len(positions) - 1]])
    starts = positions[firsts]
    return [(start, end - start) for start, end in zip(starts.tolist(), ends[lasts].tolist(), strict=True)]


def without(ranges: list[ByteRange], dropped: list[ByteRange]) -> tuple[ByteRange, ...]:
    """The ranges without the dropped ones; both in the order of the file."""
    kept: list[ByteRange] = []
    waiting = iter([*dropped, None])
    drop = next(waiting)
    for start, size in ranges:
        end = start + size
        while drop is not None and drop[0] < end:
            if drop[0] > start:
                kept.append((start, drop[0] - start))
            start = sum(drop)
            drop = next(waiting)
        if start < end:
            kept.append((start, end - start))
    return tuple(kept)


def section(ranges: Iterable[ByteRange], start: int, size: int) -> tuple[ByteRange, ...]:
    """Which ranges of the file have `size` bytes from `start` on, if only the bytes of `ranges` count."""
    found, end, passed = [], start + size, 0
    for position, length in ranges:
        first, last = max(start - passed, 0), min(end - passed, length)
        if first < last:
            found.append((position + first, last - first))
        passed += length
    return tuple(found)
