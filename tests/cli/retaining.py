"""Runs `stratalog retain` on planted logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stratalog.cli import main
from tests.cli.planting import MARKER, SET_SIZE, Planted
from tests.log.model import NOW

DELAY = 60_000


def three_segments(tmp_path: Path) -> Planted:
    """A topic `orders` of three segments, whose retention.bytes has room for one of them."""
    settings = {"retention.bytes": 5 * SET_SIZE, "retention.ms": -1, "file.delete.delay.ms": DELAY}
    with Planted(tmp_path, orders=settings) as planted:
        planted.fill("orders", 15)
    return planted


def run(
    planted: Planted, *arguments: object, now: int = NOW, settings: bool = True, command: str = "retain"
) -> int:
    given = ["--topic-settings", planted.settings] if settings else []
    return main.run([command, *map(str, (planted.data, *given, "--now", now, *arguments))])


def cuts(document: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [
        (found["partition"], cut["position"], cut["bytes"])
        for directory in document["recovery"]["directories"]
        for found in directory["partitions"]
        for cut in found["cuts"]
    ]


def tear(planted: Planted, topic: str, base_offset: int) -> Path:
    """Half a batch at the end of a log, as a killed process leaves it."""
    (planted.data / MARKER).unlink(missing_ok=True)
    path = planted.data / f"{topic}-0" / f"{base_offset:020d}.log"
    path.write_bytes(path.read_bytes() + path.read_bytes()[:20])
    return path
