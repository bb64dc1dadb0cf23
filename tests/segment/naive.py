"""The index rule, written to be obviously right: a slow twin of `kernels.index.index_batches`.

One batch after the other, as log files are appended to. See docs/formats/offset-index.md for the words.
"""

from __future__ import annotations

from typing import NamedTuple

from tests import naive


class Indexes(NamedTuple):
    """Entries of both indexes with absolute offsets: (last offset, position) and (timestamp, offset)."""

    offset_entries: list[tuple[int, int]]
    time_entries: list[tuple[int, int]]


def index(data: bytes, interval: int, *, closed: bool = True) -> Indexes:
    """The entries that a file of whole batches has; a closed one has its largest timestamp too."""
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    largest = (-1, 0)
    since_entry = 0
    for batch in naive.walk(data, check_crc=False)[0]:
        if batch.max_timestamp > largest[0]:
            largest = (batch.max_timestamp, batch.last_offset)
        if since_entry > interval:
            offsets.append((batch.last_offset, batch.position))
            _add_time(times, largest)
            since_entry = 0
        since_entry += batch.size
    if closed:
        _add_time(times, largest)
    return Indexes(offsets, times)


def _add_time(times: list[tuple[int, int]], largest: tuple[int, int]) -> None:
    last = times[-1][0] if times else -1
    if largest[0] > last:
        times.append(largest)
