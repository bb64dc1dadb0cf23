"""`import stratalog` and `stratalog --help` stay light: nothing compiled, no Arrow, no Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.catalog import log_dirs
from tests.waiting import PATIENCE_S

HEAVY = ["numba", "numpy", "pandas", "pyarrow", "pyspark", "rich"]
REPORT = (
    f"import atexit, sys; atexit.register(lambda: print('heavy:', sorted(set({HEAVY}) & set(sys.modules))))"
)


def run_and_report(statement: str, *arguments: str) -> str:
    """What a fresh interpreter prints that runs `statement` and then names what heavy modules it has."""
    command = [sys.executable, "-c", f"{REPORT}\n{statement}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout


@pytest.mark.parametrize(
    "module", ["stratalog", "stratalog.errors", "stratalog.cli.main", "stratalog.spark.java"]
)
def test_importing_stays_light(module: str) -> None:
    assert run_and_report(f"import {module}") == "heavy: []\n"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["demo", "--help"], ["warm", "--help"]])
def test_help_stays_light(arguments: list[str]) -> None:
    printed = run_and_report("from stratalog.cli.main import main; main()", *arguments)

    assert printed.startswith(("Usage: stratalog", "stratalog "))
    assert printed.endswith("heavy: []\n")


@pytest.mark.parametrize("command", ["ls", "doctor"])
def test_looking_at_a_small_directory_needs_only_numpy_and_nothing_that_writes(command: str) -> None:
    (logs,) = log_dirs("4.3.1", "clean")
    writers = ["stratalog.log.log", "stratalog.log.cleaning.filter", "stratalog.log.recovery.manifest"]
    report = f"atexit.register(lambda: print('writers:', {{*{writers}}} & {{*sys.modules}}))"
    wide = "import os; os.environ['COLUMNS'] = '1000'"  # rich draws tables that do not fit
    run = f"{report}\n{wide}\nfrom stratalog.cli.main import main; main()"
    printed = run_and_report(run, command, str(logs))

    assert printed.endswith("\nwriters: set()\nheavy: ['numpy']\n")


@pytest.mark.parametrize("command", ["retain", "compact", "recover"])
def test_a_dry_run_needs_no_arrow(command: str) -> None:
    (logs,) = log_dirs("4.3.1", "clean")
    run = "from stratalog.cli.main import run; import sys; run(sys.argv[1:])"
    printed = run_and_report(run, command, "--dry-run", "--json", str(logs))

    assert printed.endswith("heavy: ['numpy']\n")


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in Linux's /proc")
def test_a_command_that_imports_numpy_starts_no_threads() -> None:
    (logs,) = log_dirs("4.3.1", "clean")
    count = "import atexit, os; atexit.register(lambda: print(len(os.listdir('/proc/self/task')), 'threads'))"
    printed = run_and_report(f"{count}\nfrom stratalog.cli.main import main; main()", "ls", str(logs))

    assert "\n1 threads\n" in printed


LOGGING = """
import sys, stratalog
with stratalog.open_log(sys.argv[1], create=True) as log:
    log.append_many([b"one", b"two"])
    log.flush()
    print([record.value for record in log.records()])
"""


def test_a_log_is_written_and_read_without_pandas(tmp_path: Path) -> None:
    # Arrow imports it at the first array that is made of Python's values, and that takes half a second.
    printed = run_and_report(LOGGING, str(tmp_path / "orders-0"))

    assert printed == "[b'one', b'two']\nheavy: ['numpy', 'pyarrow']\n"


def test_the_report_names_what_is_heavy() -> None:
    assert run_and_report("import numpy") == "heavy: ['numpy']\n"
