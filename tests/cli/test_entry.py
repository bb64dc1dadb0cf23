"""`stratalog --version` is quick, and does what it did as a command of click."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stratalog.version import __version__
from tests.waiting import PATIENCE_S

ENTRIES = ["stratalog.cli.entry", "stratalog.cli.main"]


def shell(module: str, words: str, **environment: str) -> tuple[int, str, str]:
    """(exit status, stdout, stderr) of a command line with redirections."""
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m {module} {words}"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "--version",
        "--version >&-",
        "--version 2>&-",
        "--version > /dev/full",
        "--version ls",
        "--versio",
        "",
        "ls --version",
        "ls /nonexistent",
    ],
)
def test_both_ways_in_say_the_same(words: str) -> None:
    if "/dev/full" in words and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    by_entry, by_main = (shell(module, words) for module in ENTRIES)

    assert by_entry == by_main


def test_the_version_is_printed() -> None:
    assert shell(ENTRIES[0], "--version") == (0, f"stratalog {__version__}\n", "")


INTERRUPTED_IMPORT = """
import sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "stratalog.operations":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from stratalog.cli.entry import main
main()
"""


@pytest.mark.parametrize("redirection", ["", "2>&-"])
def test_an_interrupt_while_a_command_is_imported_prints_no_traceback(redirection: str) -> None:
    line = f"{sys.executable} -c '{INTERRUPTED_IMPORT}' {redirection}"

    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)

    said = "" if redirection else "stratalog: stopped\n"
    assert (done.returncode, done.stdout, done.stderr) == (130, "", said)


def test_a_shell_that_completes_a_line_is_answered_by_click() -> None:
    asked = {"_STRATALOG_COMPLETE": "bash_complete", "COMP_WORDS": "stratalog --ver", "COMP_CWORD": "1"}

    assert "--version" in shell(ENTRIES[0], "--version", **asked)[1]
    assert shell(ENTRIES[0], "--version", **asked) == shell(ENTRIES[1], "--version", **asked)


def test_the_version_needs_no_click_and_no_logging() -> None:
    program = """
import sys
sys.argv[1:] = ["--version"]
from stratalog.cli.entry import main
try:
    main()
finally:
    heavy = ("click", "logging", "typing", "dataclasses", "stratalog.errors")
    print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == f"stratalog {__version__}\n[]\n"
