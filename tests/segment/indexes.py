"""Offset indexes to test with."""

from __future__ import annotations

from pathlib import Path

from stratalog.files.disk import Disk
from stratalog.segment.offset_index import ENTRY_SIZE, OffsetIndex

BASE = 45
ROOM = 30


def open_index(folder: Path, base_offset: int = BASE, room: int = ROOM) -> OffsetIndex:
    return OffsetIndex(
        Disk(), folder / "00000000000000000045.index", base_offset, max_size=room * ENTRY_SIZE + 7
    )
