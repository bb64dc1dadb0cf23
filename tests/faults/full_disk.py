"""What `recover` says about a killed directory on a real disk without a free block.

`python -m tests.faults.full_disk "KIND [sparse]" WORK` runs in a separate mount namespace, and prints for
each command its exit status and what it printed. An index of the broker was not trimmed, so that cutting it
gives room for the broker's start. Sparse indexes give no room back when they are cut.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from tests.faults.mounted import SmallDisk, refused_is_told, run
from tests.faults.read_only import said
from tests.manager.running import fixture_copy

SIZE = "48M"


def fill(place: Path) -> None:
    """Write until no block is free, also after the file system has freed what it still held."""
    descriptor = os.open(place / "ballast", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    written = 1
    while written:
        run("sync", "-f", str(place))
        written = sum(_written(descriptor, piece) for piece in (1 << 20, 4096, 512))
    os.close(descriptor)


def _written(descriptor: int, size: int) -> int:
    """Write pieces of this size while they fit; returns how many bytes were written."""
    total = 0
    with suppress(OSError):
        while True:
            total += os.write(descriptor, bytes(size))
            os.fsync(descriptor)
    return total


if __name__ == "__main__":
    (kind, *sparse), work = sys.argv[1].split(), Path(sys.argv[2])
    refused_is_told("mount", "--make-rprivate", "/")
    disk = SmallDisk(work, kind, SIZE)
    root = fixture_copy("killed", disk.place / "data")
    log = root / "codecs-0" / "00000000000000000012.log"
    with log.open("ab") as file:
        file.write(log.read_bytes()[:40])
    with log.with_suffix(".index").open("ab") as file:
        file.write(bytes(64 << 10))
    for index in root.glob("*/*index") if sparse else ():
        size = index.stat().st_size
        os.truncate(index, 0)
        os.truncate(index, size)
    fill(disk.place)
    elsewhere = work / "elsewhere"
    elsewhere.mkdir()
    with_work_dir = f"recover --work-dir {elsewhere}"
    commands = ("recover --dry-run", f"{with_work_dir} --dry-run", "recover", with_work_dir)
    found = [said(command, root)[:2] for command in commands]
    (disk.place / "ballast").unlink()
    print(json.dumps([*found, said(with_work_dir, root)[:2]]))
