"""Directories that a real broker left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.directory.recovery.recovering import copy_of


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    return copy_of("killed", tmp_path / "killed")


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    return copy_of("clean", tmp_path / "clean")
