"""Marks of a log: an offset, and its place in a segment if that was looked up."""

from __future__ import annotations

from typing import NamedTuple

from stratalog.limits import INT64_MAX

UNKNOWN = -1


class OffsetMetadata(NamedTuple):
    """An offset and its place; the place is UNKNOWN until a read resolves it. Kafka: LogOffsetMetadata"""

    offset: int
    segment_base: int = UNKNOWN
    position: int = UNKNOWN

    @property
    def is_resolved(self) -> bool:
        return self.segment_base != UNKNOWN


class OffsetSnapshot(NamedTuple):
    """The marks of a log at one moment: start <= last stable <= high watermark <= end."""

    log_start_offset: int
    last_stable_offset: OffsetMetadata
    high_watermark: OffsetMetadata
    log_end_offset: OffsetMetadata


class Cuts(NamedTuple):
    """The truncations of a log: how many so far, and the lowest end since a copy last followed them.

    A copy that ends after `lowest_end` may have records that the log has removed, even if the log is longer
    again. `lowest_end` is 0 after the log was emptied, and INT64_MAX if there is nothing to follow.
    """

    cuts_count: int = 0
    lowest_end: int = INT64_MAX
