"""Real small file systems: full, made read-only under a writer, and on a device that fails.

Skipped, in words, where the machine does not let us mount.
"""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import mounted

ROOT = Path(__file__).parents[2]
EXPECTED = {
    "tmpfs full": {errno.ENOSPC},
    "ext4 full": {errno.ENOSPC},
    "ext4 full, a lone log": {errno.ENOSPC},
    # The first call after the error may be an fsync, which says what happened to the bytes.
    "ext4 read-only": {errno.EROFS, errno.EIO},
    # fsync returns the error of the device: a loop device without room returns that one.
    "ext4 failing": {errno.EIO, errno.EROFS, errno.ENOSPC},
}


@pytest.mark.skipif(sys.platform != "linux", reason="mounts are made as Linux makes them")
@pytest.mark.parametrize("scenario", mounted.SCENARIOS)
def test_what_was_flushed_is_there_when_the_file_system_is_well_again(scenario: str, tmp_path: Path) -> None:
    tool = mounted.missing_tool(scenario)
    if tool is not None:
        pytest.skip(f"{tool} is not installed")

    run = subprocess.run(
        mounted.in_namespace(scenario, tmp_path),
        cwd=ROOT,
        env=mounted.environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    if run.returncode == mounted.NOT_HERE or run.stderr.startswith("unshare:"):
        pytest.skip(f"this machine does not let us mount: {run.stdout}{run.stderr}")
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert report["errno"] in EXPECTED[scenario]
    assert report["offline"] == 1
    assert report["reason"] not in ("None", "")
    assert report["served"] == 20
    assert report["flushed"]["orders-0"] >= 50
    if scenario == "ext4 failing":  # the device was full, the file system on it was not
        assert report["flushed"]["orders-0"] * mounted.VALUE_SIZE < mounted.BEHIND_THE_DEVICE
