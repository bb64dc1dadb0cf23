"""Fixtures for tests of the manager."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.manager.failing import Three


@pytest.fixture
def three(tmp_path: Path) -> Three:
    return Three(tmp_path)
