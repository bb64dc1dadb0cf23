"""What a cleaning returns: the new segments, how far the log is clean now, and what was read and written."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import NamedTuple


class CleanedSegment(NamedTuple):
    """The segment that replaces a group; the timestamp is -1 if no batch has one."""

    base_offset: int
    size: int
    max_timestamp: int
    modified_ms: int

    @property
    def largest_timestamp(self) -> int:
        """As for any segment: the largest timestamp, or the file's modification time if there is none."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified_ms


@dataclass(slots=True, kw_only=True)
class CleanerStats:
    """Counts of what a cleaning has read and written; the first two count the pass that fills the map."""

    map_bytes_read: int = 0
    map_records_read: int = 0
    bytes_read: int = 0
    records_read: int = 0
    records_without_key: int = 0
    bytes_written: int = 0
    records_written: int = 0
    map_utilization: float = 0.0

    def go_back_to(self, earlier: CleanerStats) -> None:
        """Forget what was counted since `earlier` was copied."""
        for each in fields(self):
            setattr(self, each.name, getattr(earlier, each.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanResult:
    """`end_offset` is the new first dirty offset, which goes to the cleaner's checkpoint."""

    end_offset: int
    groups: tuple[tuple[int, ...], ...]
    """The base offsets of the segments that became one, group by group."""
    cleaned: tuple[CleanedSegment, ...] = ()
    """The segment that replaces each group."""
    stats: CleanerStats = field(default_factory=CleanerStats)
