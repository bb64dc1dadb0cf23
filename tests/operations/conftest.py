"""What the tests of operations share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.planting import Planted
from tests.cli.retaining import three_segments
from tests.directory.conftest import clean, killed

__all__ = ["clean", "killed", "planted"]


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return three_segments(tmp_path)
