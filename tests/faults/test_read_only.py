"""A log directory on a real mount that is read-only. Skipped, in words, where the machine does not let us
mount."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import mounted

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mounts are made as Linux makes them")


def said_on(state: str, work: Path) -> dict[str, tuple[int, str, bool]]:
    tool = mounted.missing_tool("tmpfs")
    if tool is not None:
        pytest.skip(f"{tool} is not installed")
    run = subprocess.run(
        mounted.in_namespace(state, work, "tests.faults.read_only"),
        cwd=ROOT,
        env=mounted.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode == mounted.NOT_HERE or run.stderr.startswith("unshare:"):
        pytest.skip(f"this machine does not let us mount: {run.stdout}{run.stderr}")
    assert run.returncode == 0, run.stderr
    found: dict[str, tuple[int, str, bool]] = json.loads(run.stdout)
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
