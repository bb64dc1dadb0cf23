"""Runs a program that attacks readers with damaged bytes, in a process of its own: it may be killed."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
_HOW = {-signal.SIGSEGV: "a read outside the buffer", -signal.SIGALRM: "a hang"}


def run_attack(module: str, *arguments: object, work: Path, **environment: str) -> Any:
    """What the program printed, as JSON; fails the test with the number of the case that went wrong."""
    progress = work / "progress"
    progress.write_bytes(struct.pack("<q", -1))  # healthy ones come first
    run = subprocess.run(
        [sys.executable, "-m", f"tests.properties.{module}", *map(str, arguments), str(progress)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        (number,) = struct.unpack("<q", progress.read_bytes())
        how = _HOW.get(run.returncode, "an error")
        where = f"case {number} of {module} {' '.join(map(str, arguments))}"
        pytest.fail(f"{where}: {how} (exit {run.returncode})\n{run.stderr}", pytrace=False)
    return json.loads(run.stdout)
