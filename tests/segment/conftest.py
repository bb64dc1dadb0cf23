"""Shared by the tests of segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.segment.segment import LogSegment
from tests.segment.making import new_segment


@pytest.fixture
def segment(tmp_path: Path) -> LogSegment:
    """Base offset 40, with an entry for every batch except the first."""
    return new_segment(tmp_path, 40, interval=0)
