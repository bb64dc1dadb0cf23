"""A log directory on a real mount that is read-only. Skipped, in words, where the machine does not let us
mount."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.faults import mounted

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mounts are made as Linux makes them")


def said_on(state: str, work: Path) -> dict[str, tuple[int, str, bool]]:
    found: dict[str, tuple[int, str, bool]] = json.loads(
        mounted.printed(state, work, "tests.faults.read_only")
    )
    return found


@pytest.mark.parametrize("state", ["clean", "killed"])
def test_doctor_said_that_a_broker_can_be_started_on_a_read_only_mount(state: str, tmp_path: Path) -> None:
    found = said_on(state, tmp_path)

    code, words, _ = found["doctor"]
    assert code == 3
    assert "The broker will not start" in words
    assert "Its file system is read-only" in words
    assert "remount,rw" in words
    # A run says the same as its plan.
    assert [found[command][0] for command in ("recover --dry-run", "recover")] == [3, 3]
    for command in ("recover --dry-run", "recover"):
        assert "the broker must not be started yet" in found[command][1].lower()
        assert "read-only" in found[command][1]
    # A backup is often mounted like this.
    assert [found[command][0] for command in ("audit", "ls", "du")] == [0, 0, 0]
    assert all(is_unchanged for _, _, is_unchanged in found.values())
