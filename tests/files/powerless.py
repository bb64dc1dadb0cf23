"""Disks as they may be found after a power cut."""

from __future__ import annotations

from stratalog.files.simulated import SimulatedDisk


def made(contents: dict[str, bytes] | None = None) -> SimulatedDisk:
    disk = SimulatedDisk.of(contents or {})
    disk.make_directories("/logs")
    disk.sync_everything()
    disk.steps = 0
    return disk


def found(disk: SimulatedDisk) -> set[tuple[tuple[str, bytes], ...]]:
    """What may be there after a power cut now."""
    return {tuple(after.contents().items()) for after in disk.crash()}
