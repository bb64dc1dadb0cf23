"""A power cut around a roll takes the end of a log, and never records from its middle."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog import PartitionLog
from tests import profile
from tests.log.crashing import crashed_at, fill, opened, steps_of, value_of, values
from tests.log.model import ManualScheduler


def unflushed(log: PartitionLog, _scheduler: ManualScheduler) -> None:
    """Several segments, of which nobody has flushed one."""
    fill(log, 9)


@pytest.mark.parametrize("part", range(4))
def test_what_a_power_cut_leaves_of_unflushed_segments_is_a_beginning(part: int, tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    steps = steps_of(directory, unflushed) + 1
    chosen = range(1 + part, steps + 1, 4 * max(1, steps // profile.examples(steps, quick=12)))

    for step in chosen:
        for image in crashed_at(directory, unflushed, step).crash(most=20):
            with opened(directory, image) as log:
                found = values(log)
            assert found == {offset: value_of(offset) for offset in range(len(found))}, f"step {step}"
