"""Runs `stratalog demo` for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stratalog.cli import main

SMALL = ("demo", "--engine", "threads", "--size", "4MB")


def told(capsys: pytest.CaptureFixture[str], folder: Path, *more: str) -> Any:
    """What a small demo in this new folder prints with --json."""
    capsys.readouterr()
    assert main.run([*SMALL, "--directory", str(folder), "--json", *more]) == 0
    return json.loads(capsys.readouterr().out)


def report_of(result: Any, command: str) -> Any:
    """The report of the first step that ran this command."""
    return next(step["report"] for step in result["steps"] if f"stratalog {command} " in step["command"])
