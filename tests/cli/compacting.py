"""Runs `stratalog compact` on planted logs."""

from __future__ import annotations

from typing import Any

from stratalog.cli import main
from tests.cli.planting import Planted
from tests.log.model import NOW

DELAY = 60_000
SETTINGS: dict[str, Any] = {"cleanup.policy": "compact", "file.delete.delay.ms": DELAY}


def run(planted: Planted, *arguments: object, now: int = NOW, settings: bool = True) -> int:
    given = ["--topic-settings", planted.settings] if settings else []
    return main.run(["compact", *map(str, (planted.data, *given, "--now", now, *arguments))])
