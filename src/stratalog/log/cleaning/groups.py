"""Groups neighbouring segments that together still fit into one segment.

Kafka: Cleaner.groupSegmentsBySize
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stratalog.config import LogConfig
from stratalog.limits import INT32_MAX
from stratalog.segment.segment_reader import SegmentReader


class SegmentSizes(NamedTuple):
    """The sizes of a segment for grouping: bytes of the log, and of the entries in its two indexes."""

    base_offset: int
    size: int
    offset_index_size: int
    time_index_size: int


def group_segments(
    segments: Sequence[SegmentSizes], *, max_size: int, max_index_size: int, first_uncleanable_offset: int
) -> list[range]:
    """Runs of indexes into `segments`, in order; each run becomes one segment with the base of its first.

    A segment is assumed to end right before the next one's base. Its last offset may be lower, but finding it
    would need the index, which a crash may have left empty, or a read of the file.
    """
    groups: list[range] = []
    start = 0
    while start < len(segments):
        first = segments[start]
        size, offset_index_size, time_index_size = first[1:]
        stop = start + 1
        while stop < len(segments):
            segment = segments[stop]
            size += segment.size
            offset_index_size += segment.offset_index_size
            time_index_size += segment.time_index_size
            following = (
                segments[stop + 1].base_offset if stop + 1 < len(segments) else first_uncleanable_offset
            )
            # An empty segment has no offset that could be too far from the first one's base.
            fits_range = not segment.size or following - 1 - first.base_offset <= INT32_MAX
            if (
                size > max_size
                or offset_index_size > max_index_size
                or time_index_size > max_index_size
                or not fits_range
            ):
                break
            stop += 1
        groups.append(range(start, stop))
        start = stop
    return groups


def groups_of(
    segments: Sequence[SegmentReader], config: LogConfig, first_uncleanable_offset: int
) -> list[Sequence[SegmentReader]]:
    """The segments in groups; each group becomes one segment."""
    facts = [
        SegmentSizes(
            segment.base_offset,
            segment.size,
            segment.offset_index.entry_count * segment.offset_index.entry_size,
            segment.time_index.entry_count * segment.time_index.entry_size,
        )
        for segment in segments
    ]
    groups = group_segments(
        facts,
        max_size=config.segment_size,
        max_index_size=config.segment_index_bytes,
        first_uncleanable_offset=first_uncleanable_offset,
    )
    return [segments[group.start : group.stop] for group in groups]
