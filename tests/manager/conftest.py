"""What several tests of the manager begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.manager.failing import Three


@pytest.fixture
def three(tmp_path: Path) -> Three:
    return Three(tmp_path)
