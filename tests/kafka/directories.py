"""Two partition directories that were closed cleanly, compared file by file."""

from __future__ import annotations

import struct
from pathlib import Path

from tests import naive_sums


def compare_files(theirs: Path, ours: Path) -> None:
    """The same names and bytes; snapshots entry by entry, because Kafka stores producers in a hash map."""
    assert names_in(ours) == names_in(theirs), f"we have {names_in(ours)}, Kafka has {names_in(theirs)}"
    for name in names_in(theirs):
        compare_file(theirs / name, ours / name)


def compare_file(theirs: Path, ours: Path) -> None:
    expected, found = theirs.read_bytes(), ours.read_bytes()
    if theirs.suffix == ".snapshot":
        assert snapshot_entries(found) == snapshot_entries(expected), theirs.name
    else:
        assert found == expected, f"{theirs.name}: {len(found)} bytes, Kafka has {len(expected)}"


def names_in(directory: Path) -> list[str]:
    """All files except those that wait for their deletion, which Kafka's next start deletes."""
    return sorted(file.name for file in directory.iterdir() if file.suffix != ".deleted")


def snapshot_entries(data: bytes) -> list[tuple[int, ...]]:
    """The producers in a snapshot by their ids; its CRC must be correct."""
    version, crc, count = struct.unpack_from(">hIi", data)
    assert (version, crc) == (1, naive_sums.crc32c(data[6:]))
    entries = sorted(struct.iter_unpack(">qhiqiqiq", data[10:]))
    assert len(entries) == count
    return entries
