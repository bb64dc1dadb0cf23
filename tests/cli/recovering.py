"""Runs `stratalog recover` for tests."""

from __future__ import annotations

from pathlib import Path

from stratalog.cli import main


def run(*arguments: object) -> int:
    return main.run(["recover", *map(str, arguments)])


def tear(directory: Path) -> None:
    """The start of a batch, as a crash leaves it."""
    with (directory / "rolled-0" / "00000000000000000088.log").open("ab") as file:
        file.write(bytes(8) + b"\0\0\1\0" + b"half")
