"""Runs `stratalog recover` for tests."""

from __future__ import annotations

from stratalog.cli import main


def run(*arguments: object) -> int:
    return main.run(["recover", *map(str, arguments)])
