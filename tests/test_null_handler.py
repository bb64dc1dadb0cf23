"""What Stratalog logs goes nowhere unless a program sets up logging, whichever module it imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S

SOURCE = Path(__file__).parents[1] / "src" / "stratalog"
LOGGING = sorted(
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    for path in SOURCE.rglob("*.py")
    if "logging.getLogger(__name__)" in path.read_text("utf-8")
)


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    return done.stdout + done.stderr


def test_modules_that_log_are_found() -> None:
    assert len(LOGGING) > 20


@pytest.mark.parametrize("package", sorted({name.split(".")[1] for name in LOGGING}))
def test_a_warning_of_any_package_is_not_printed(package: str) -> None:
    modules = [name for name in LOGGING if name.split(".")[1] == package]
    # One of each package is imported alone: others of the package have then the same handler.
    program = f"import logging, {modules[0]}\nfor name in {modules}: logging.getLogger(name).warning('heard')"

    assert run(program) == ""


def test_a_logger_without_the_handler_is_heard() -> None:
    assert run("import logging, stratalog; logging.getLogger('other').warning('heard')") == "heard\n"


def test_the_handler_is_added_once() -> None:
    program = """
import logging, stratalog.log, stratalog.segment
print(len(logging.getLogger("stratalog").handlers))
"""
    assert run(program) == "1\n"
