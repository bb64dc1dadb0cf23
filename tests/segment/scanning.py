"""A segment of these batches, scanned."""

from __future__ import annotations

from pathlib import Path

from stratalog.files.disk import Disk
from stratalog.segment.scan import SegmentScan, scan_segment


def scan(log: Path, interval: int = 4096) -> SegmentScan:
    return scan_segment(Disk(), log, int(log.name.split(".")[0]), index_interval_bytes=interval)


def scan_of(folder: Path, *batches: bytes, base_offset: int = 0, interval: int = 0) -> SegmentScan:
    log = folder / f"{base_offset:020d}.log"
    log.write_bytes(b"".join(batches))
    return scan(log, interval)
