"""A recovered directory with something in quarantine: half a batch, and whole batches after damage."""

from __future__ import annotations

from pathlib import Path

from stratalog.operations.recover import RecoverOptions, recover
from tests.directory.recovery.recovering import copy_of

TORN = bytes(8) + b"\0\0\1\0" + b"half a batch"


def recovered(target: Path, place: Path | None = None) -> tuple[Path, dict[str, bytes]]:
    """The directory, and the bytes that were cut off, by the partition they belong to."""
    root = copy_of("killed", target)
    cut = {}
    log = root / "rolled-0" / f"{88:020d}.log"
    log.write_bytes(log.read_bytes() + TORN)
    cut["rolled-0"] = TORN
    damaged = root / "txn-0" / max(path.name for path in (root / "txn-0").glob("*.log"))
    data = bytearray(damaged.read_bytes())
    first = int.from_bytes(data[8:12], "big") + 12
    data[first + 30] ^= 1  # the second batch: everything from there on is cut off
    damaged.write_bytes(data)
    cut["txn-0"] = bytes(data[first:])
    options = RecoverOptions(quarantine=None if place is None else str(place), scan_all=True)
    report = recover([str(root)], options)
    assert not report.is_failed
    return root, cut
