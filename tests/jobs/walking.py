"""Copies of a broker's partitions, walked."""

from __future__ import annotations

from pathlib import Path

from stratalog.files.reading import DiskReader
from stratalog.jobs.walk import SegmentWalk, WalkTask, walk_segment
from tests.fixtures.catalog import partitions

ROLLED = next(partition for partition in partitions("4.3.1", "clean") if partition.name == "rolled-0")


def walk_file(path: Path, *, is_active: bool = True) -> SegmentWalk:
    size = path.stat().st_size
    return walk_segment(
        DiskReader(),
        WalkTask(path=str(path), topic="t", partition=0, base_offset=0, size=size, is_active=is_active),
    )
