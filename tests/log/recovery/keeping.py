"""A log of which something is kept in quarantine."""

from __future__ import annotations

import json
import random
from typing import Any

from stratalog.files.disk import Disk
from stratalog.files.names import QUARANTINE_MANIFEST
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.recovery.manifest import ManifestEntry
from stratalog.log.recovery.quarantine import Quarantine

ROOT, PARTITION = "/logs", "/logs/t-0"
NAME = f"{42:020d}.log"
LOG = f"{PARTITION}/{NAME}"
BYTES = random.Random(5).randbytes(5000)


def made(data: bytes = BYTES) -> SimulatedDisk:
    return SimulatedDisk.of({LOG: data})


def quarantine(disk: Disk) -> Quarantine:
    return Quarantine(disk, ROOT, clock=lambda: 77)


def keep(disk: Disk, position: int = 1000, size: int = 4000) -> ManifestEntry:
    return quarantine(disk).keep_range(
        LOG, partition="t-0", file=NAME, position=position, size=size, reason="a wrong checksum"
    )


def lines(disk: SimulatedDisk) -> list[dict[str, Any]]:
    return [json.loads(line) for line in disk.contents()[f"{ROOT}/{QUARANTINE_MANIFEST}"].splitlines()]
