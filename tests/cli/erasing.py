"""Runs `stratalog erase` on planted logs."""

from __future__ import annotations

from typing import Any

from stratalog.cli import main
from tests.cli.planting import Planted
from tests.log.cleaning.dirty import records_of
from tests.log.model import NOW

SETTINGS: dict[str, Any] = {"retention.ms": -1}
COUNT = 21


def run(planted: Planted, *arguments: object, name: str = "t-0", settings: bool = True) -> int:
    given = ["--topic-settings", planted.settings] if settings else []
    return main.run(["erase", *map(str, (planted.data, "--topic", name, *given, "--now", NOW, *arguments))])


def left(planted: Planted, topic: str = "t") -> list[int]:
    with planted:
        log = planted.log(topic)
        assert (log.log_start_offset, log.log_end_offset) == (0, COUNT)
        return [record.offset for record in records_of(log)]


def without(*keys: int) -> list[int]:
    return [offset for offset in range(COUNT) if offset % 3 not in keys]


def occurs(planted: Planted, value: bytes) -> list[str]:
    """The files in which these bytes are."""
    return [name for name, (data, _) in planted.contents().items() if value in data]
