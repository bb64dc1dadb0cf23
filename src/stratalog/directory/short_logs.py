"""Finds logs that end before the offsets that a clean shutdown has stored: records were lost since then.

A clean shutdown writes the end of each log as its recovery point. A broker starts in spite of this, and says
nothing. After a truncation inside a batch, a log may be shorter too, though nothing was lost since.

After a crash a recovery point proves nothing: a broker that died while it truncated a log has not lowered it
yet. The cleaner's checkpoint proves nothing either, because recovery and brokers leave it above the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stratalog.directory.checkpoints import DirectoryCheckpoints
from stratalog.directory.clean_shutdown import CleanShutdownFile
from stratalog.directory.layout import Layout, PartitionEntry, Problem
from stratalog.errors import DiskError
from stratalog.files.names import DirectoryState
from stratalog.files.reading import DiskReader
from stratalog.log.broker_end import broker_end

MISSING = "records are missing, at least in this replica"


def short_logs(
    checkpoints: DirectoryCheckpoints, ends: Iterable[tuple[PartitionEntry, int]]
) -> Iterator[Problem]:
    """The logs with these ends that are too short, in a directory that was shut down cleanly."""
    points, watermarks = checkpoints.recovery_points.read(), checkpoints.high_watermarks.read()
    for entry, end in ends:
        if entry.state is not DirectoryState.LIVE:
            continue  # a future copy: the entries in the checkpoints are those of its log
        point, watermark = points.get(entry.topic_partition, 0), watermarks.get(entry.topic_partition, 0)
        if max(point, watermark) <= end:
            continue
        known = f"its recovery point is {point}" if point > end else f"its high watermark is {watermark}"
        words = f"it ends at offset {end}, and {known}, though the directory was shut down cleanly"
        yield Problem(entry.name, words, MISSING)


def short_logs_in(disk: DiskReader, layout: Layout) -> list[Problem]:
    """The same for a log directory; empty if it was not shut down cleanly. Reads the ends of its logs."""
    if not CleanShutdownFile(disk, layout.directory).exists():
        return []
    ends = []
    for entry in layout.partitions:
        path = layout.path(entry)
        try:
            # The checkpoints do not cover what a lone log has done since.
            found = None if CleanShutdownFile(disk, path).exists() else broker_end(disk, path)
        except DiskError:  # among the refusals
            continue
        if found is not None and found.real_offset is not None and found.damage is None:
            ends.append((entry, found.real_offset))
    return [*short_logs(DirectoryCheckpoints(disk, layout.directory), ends)]
