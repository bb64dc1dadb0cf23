"""The answers of `explain` for each segment, as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.explaining import DAY, ages, explain
from tests.cli.planting import Planted

WEEK = {"retention.ms": 7 * DAY}


def test_for_people_it_is_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Planted(tmp_path, t=WEEK) as planted:
        ages(-0.01, 20)(planted)

    assert explain(planted) == 0

    shown = capsys.readouterr().out
    assert "future timestamp" in shown
    assert "t-0: cleanup.policy delete, starts at 0, high watermark 10, ends at 10" in shown


def test_a_time_past_all_calendars_is_no_accident(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Planted(tmp_path, t={**WEEK, "message.timestamp.after.max.ms": 2**63 - 1}) as planted:
        planted.fill("t", 5, timestamp=2**62)

    assert explain(planted) == 0

    assert "future timestamp" in capsys.readouterr().out
