"""What the commands say about a log directory on a real read-only mount.

`python -m tests.faults.read_only STATE WORK` runs in a separate mount namespace, and prints for each command
its exit status, what it printed, and whether the directory is unchanged.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

from stratalog.cli import main
from tests.faults.mounted import refused_is_told, run
from tests.manager.running import contents, fixture_copy

COMMANDS = ("doctor", "recover --dry-run", "recover", "audit", "ls", "du")


def said(command: str, directory: Path) -> tuple[int, str, bool]:
    before, told = contents(directory), io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        code = main.run([*command.split(), str(directory), "--plain"])
    return code, told.getvalue(), contents(directory) == before


if __name__ == "__main__":
    place = Path(sys.argv[2]) / "mounted"
    place.mkdir()
    refused_is_told("mount", "--make-rprivate", "/")
    refused_is_told("mount", "-t", "tmpfs", "tmpfs", str(place))
    root = fixture_copy(sys.argv[1], place / "data")
    run("mount", "-o", "remount,ro", str(place))
    print(json.dumps({command: said(command, root) for command in COMMANDS}))
