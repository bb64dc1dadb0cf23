"""What the tests of operations share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.planting import Planted
from tests.cli.retaining import three_segments


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return three_segments(tmp_path)
