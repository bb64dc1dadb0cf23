"""Directories that a real broker left, and a lone log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.directory.recovery.recovering import copy_of
from tests.log.api.opened import directory, log

__all__ = ["clean", "directory", "killed", "log"]


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    return copy_of("killed", tmp_path / "killed")


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    return copy_of("clean", tmp_path / "clean")
