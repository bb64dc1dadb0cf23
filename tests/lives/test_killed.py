"""Writers that are killed with SIGKILL: acknowledged records are there, in order, once, flushed or not.

The page cache outlives a process, so that every write counts that the system took. What a power cut leaves is
another matter, which the simulated disk shows.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import profile
from tests.counting import Count

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="writers are forks of one process")
# (kills, in how many campaigns, each with its own seed and process)
WRITING = {profile.QUICK: (4, 1), profile.CI: (32, 1), profile.DEEP: (1000, 10)}
MOVING = {profile.QUICK: (2, 1), profile.CI: (8, 1), profile.DEEP: (200, 5)}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is room for it: a kill does not depend on the device, which is slow."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free < 1 << 30:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="stratalog-killed-", dir=memory) as found:
        yield Path(found)


def killed(home: Path, kept: Path, count: int, seed: int, *options: str) -> dict[str, dict[str, int]]:
    """Kill so often; returns the kills by kind, and what else was counted."""
    command = [sys.executable, "-m", "tests.lives.killing", str(home), "--kills", str(count)]
    done = subprocess.run(
        [*command, "--seed", str(seed), *options], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        shutil.copytree(home, kept / "as-it-was")
    assert done.returncode == 0, f"see {kept}\n{done.stdout}\n{done.stderr}"
    found: dict[str, dict[str, int]] = json.loads(done.stdout)
    return found


def campaigns(counts: dict[str, tuple[int, int]]) -> list[tuple[int, int]]:
    """(kills, seed) of each campaign of this run."""
    kills, number = counts[profile.current()]
    return [(kills // number, seed) for seed in range(number)]


@pytest.mark.parametrize(("kills", "seed"), campaigns(WRITING))
def test_what_a_killed_writer_acknowledged_is_there(
    kills: int, seed: int, home: Path, tmp_path: Path, counts: Count
) -> None:
    report = killed(home, tmp_path, kills, seed)

    found = report["counts"]
    counts("kills of a writer with three topics and a cleaner", report["kills"])
    counts("in the lives of writers that were killed", found)
    assert sum(report["kills"].values()) == found["kills"] == kills
    assert found["acknowledged records"] > kills
    assert found["kills during a cleaning"] >= 1
    if kills >= 30:
        done = ("cleanings", "rolls", "truncations", "deletions", "deletions by retention", "retries")
        assert [kind for kind in done if not found.get(kind)] == []


@pytest.mark.parametrize(("kills", "seed"), campaigns(MOVING))
def test_what_was_acknowledged_is_there_when_the_kill_came_during_a_move(
    kills: int, seed: int, home: Path, tmp_path: Path, counts: Count
) -> None:
    report = killed(home, tmp_path, kills, seed, "--moves")

    found = report["counts"]
    counts("kills of a writer that moves its logs, with a reader beside it", report["kills"])
    counts("in the lives of writers that were killed while they moved logs", found)
    assert found["kills during a move"] == kills
    assert found["records seen by a reader"] > 0
    if kills >= 20:
        assert found["moves done"] > 0
