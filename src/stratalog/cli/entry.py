"""What `stratalog` runs first: it answers `--version` before anything else is imported.

click, logging and the reports take several times as long to import as Python takes to start. Ctrl-C may come
while they are imported, too.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from stratalog.version import __version__

STOPPED = "stratalog: stopped"
INTERRUPTED = 130  # the status that a shell reports for a process that Ctrl-C has ended


def main() -> None:
    """Run the command of `sys.argv` and leave with its exit status."""
    if sys.argv[1:] == ["--version"] and "_STRATALOG_COMPLETE" not in os.environ and _says_version():
        sys.exit(0)
    try:
        from stratalog.cli.main import main as run_command

        run_command()
    except KeyboardInterrupt:
        with suppress(OSError, AttributeError):  # AttributeError: there is no standard error
            sys.stderr.write(f"{STOPPED}\n")
        sys.exit(INTERRUPTED)


def _says_version() -> bool:
    """Print the version; False if that fails, and `cli/main.py` must report the error."""
    if sys.stdout is None or sys.stderr is None:
        return False
    try:
        sys.stdout.write(f"stratalog {__version__}\n")
        sys.stdout.flush()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
