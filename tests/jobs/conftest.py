"""A segment that a broker wrote, and what Kafka read in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.catalog import partitions
from tests.jobs.exporting.exported import fill

ROLLED = next(partition for partition in partitions("4.3.1", "clean") if partition.name == "rolled-0")


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """A copy of a segment that a broker wrote."""
    copy = tmp_path / "rolled-0" / ROLLED.logs[0].name
    copy.parent.mkdir()
    copy.write_bytes(ROLLED.logs[0].read_bytes())
    return copy


@pytest.fixture
def batches(segment: Path) -> list[dict[str, Any]]:
    """What Kafka read in it."""
    return list(ROLLED.batches(segment))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    root = tmp_path / "logs"
    fill(root, "orders", [b"value %d" % number for number in range(30)])
    return root
