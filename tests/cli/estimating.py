"""Runs `stratalog estimate` on planted logs."""

from __future__ import annotations

from typing import Any

from stratalog.cli import main
from tests.cli.planting import Planted
from tests.log.model import NOW

SETTINGS: dict[str, Any] = {"cleanup.policy": "compact"}


def run(planted: Planted, *arguments: object, command: str = "estimate", settings: bool = True) -> int:
    given = ["--topic-settings", planted.settings] if settings else []
    return main.run([command, *map(str, (planted.data, *given, "--now", NOW, *arguments))])
