"""Runs `stratalog explain` on planted logs."""

from __future__ import annotations

from collections.abc import Callable

from stratalog.cli import main
from tests.cli.planting import Planted
from tests.log.model import NOW

DAY = 86_400_000


def ages(*days: float) -> Callable[[Planted], object]:
    """A segment for each age."""

    def plant(planted: Planted) -> None:
        for age in days:
            planted.fill("t", 5, timestamp=NOW - int(age * DAY))

    return plant


def explain(planted: Planted, *arguments: object) -> int:
    given = (planted.data, *arguments, "--topic-settings", planted.settings, "--now", NOW)
    return main.run(["explain", *map(str, given)])
