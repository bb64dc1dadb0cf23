"""The stages of a recovery."""

from __future__ import annotations

from pathlib import Path

from stratalog.directory.recovery.progress import Phase
from stratalog.directory.recovery.recover import recover_directories
from stratalog.engine.progress import Progress
from tests.directory.recovery.recovering import SERVER


def test_progress_counts_down_to_nothing(killed: Path) -> None:
    events: list[Progress] = []

    recover_directories([str(killed)], server=SERVER, on_progress=events.append)

    assert [events[0].stage, events[-1].stage] == [Phase.SURVEYING, Phase.DONE]
    assert (events[-1].logs_remaining, events[-1].segments_remaining) == (0, 0)
