"""An earlier commit of this project as the rival: its sources, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parent.parent
# The last commit before speed was measured against the limits of the machine.
BEFORE_THE_LIMITS = "f3ddba6f934f778bfb9824c56a27700a44331426"


class EarlierCommit:
    """The sources of a commit, unpacked below `work`. The clone must have the repository's history."""

    def __init__(self, work: Path, commit: str = BEFORE_THE_LIMITS) -> None:
        packed = subprocess.run(
            ["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True
        ).stdout
        self._folder = work / "earlier"
        with tarfile.open(fileobj=BytesIO(packed)) as archive:
            archive.extractall(self._folder, filter="data")

    def run(self, code: str, *arguments: str) -> str:
        """Run a program that imports the earlier `stratalog`; returns what it prints."""
        environment = {**os.environ, "PYTHONPATH": str(self._folder / "src")}
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=self._folder,
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
