"""A segment of a broker with its indexes, which a test may damage."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.dumps import SEGMENT


@pytest.fixture
def index(tmp_path: Path) -> Path:
    for file in SEGMENT.parent.glob(f"{SEGMENT.stem}.*"):
        shutil.copy(file, tmp_path)
    return tmp_path / f"{SEGMENT.stem}.index"


@pytest.fixture
def time_index(index: Path) -> Path:
    return index.with_suffix(".timeindex")


@pytest.fixture
def segment(index: Path) -> Path:
    """A copy of a segment of five batches that can be damaged; the path of its .log."""
    return index.with_suffix(".log")
