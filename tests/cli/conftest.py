"""Fixtures: a copy of a killed broker's directory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.fixtures import catalog


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    (source,) = catalog.log_dirs("4.3.1", "killed")
    return Path(shutil.copytree(source, tmp_path / "data"))
