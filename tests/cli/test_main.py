"""The frame around the commands: exit statuses, and who prints errors where."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys

import click
import pytest

from stratalog import __version__
from stratalog.cli import main
from stratalog.cli.output import Output, json_option
from stratalog.errors import DiskError, StratalogError, UsageError
from stratalog.files.reading import read_by_seeking
from tests.fixtures.catalog import log_dirs
from tests.waiting import PATIENCE_S


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> type[StratalogError]:
    """Commands that fail, each in its own way."""

    @click.command()
    @json_option
    def refused() -> None:
        raise DiskError("/logs/a-0", "could not open it: Permission denied.")

    @click.command()
    def contradicts() -> None:
        raise UsageError("--this and --that exclude each other")

    @click.command()
    def stopped() -> None:
        raise KeyboardInterrupt

    @click.command()
    @click.pass_obj
    def found(_output: Output) -> int:
        return 1

    for command in (refused, contradicts, stopped, found):
        monkeypatch.setitem(main.cli.commands, command.name, command)
    return DiskError


@pytest.mark.parametrize("command", main.cli.commands.values(), ids=lambda command: str(command.name))
def test_the_summary_of_a_command_fits_its_line(command: click.Command) -> None:
    longest = max(map(len, main.cli.commands))

    assert not command.get_short_help_str(limit=80 - 2 - longest - 2).endswith("...")


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out == f"stratalog {__version__}\n"


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["refused"], 3),
        (["contradicts"], 2),
        (["stopped"], 130),
        (["found"], 1),
        (["no-such-command"], 2),
        (["demo", "--no-such-option"], 2),
        (["--help"], 0),
    ],
)
def test_the_exit_status_tells_what_happened(arguments: list[str], status: int) -> None:
    assert main.run(arguments) == status


@pytest.mark.usefixtures("failing")
def test_an_error_is_one_line_of_words_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["refused"])

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "stratalog: /logs/a-0: could not open it: Permission denied.\n"


@pytest.mark.usefixtures("failing")
def test_an_error_is_json_where_json_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["refused", "--json"])

    assert json.loads(capsys.readouterr().err) == {
        "error": "DiskError",
        "message": "/logs/a-0: could not open it: Permission denied.",
    }


def test_a_reader_that_has_gone_is_no_error() -> None:
    command = f"{sys.executable} -m stratalog.cli.main demo --engine threads --size 4MB --json"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | true; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    assert done.stdout.strip() in ("0", "141")


(LOGS,) = log_dirs("4.3.1", "clean")
PRINTING = {
    "help": ["--help"],
    "ls": ["ls", str(LOGS)],
    "ls as JSON": ["ls", "--json", str(LOGS)],
    "dump": ["dump", str(next(LOGS.glob("rolled-0/*.log")))],
    "cat": ["cat", str(LOGS), "--topic", "rolled"],
    "csv": ["sql", "--backend", "duckdb", "--format", "csv", str(LOGS), "SELECT topic FROM kafka_records"],
    "json": ["sql", "--backend", "duckdb", "--format", "json", str(LOGS), "SELECT topic FROM kafka_records"],
}


def _in_shell(arguments: list[str], redirected: str) -> subprocess.CompletedProcess[str]:
    words = shlex.join([sys.executable, "-m", "stratalog.cli.main", *arguments])
    return subprocess.run(
        ["bash", "-c", f"{words} {redirected}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("name", PRINTING)
def test_a_full_disk_under_stdout_is_told_in_words(name: str) -> None:
    done = _in_shell(PRINTING[name], ">/dev/full")

    assert (done.returncode, "Traceback" in done.stderr) == (3, False), done.stderr
    assert "standard output: could not write to it: No space left on device." in done.stderr


def test_a_file_that_cannot_be_read_was_taken_for_stdout(monkeypatch: pytest.MonkeyPatch) -> None:
    """An OSError about a descriptor has no file name, as one about stdout has none."""
    reading, writing = os.pipe()

    @click.command()
    def seeking() -> None:
        read_by_seeking(reading, memoryview(bytearray(1)), 0)

    monkeypatch.setitem(main.cli.commands, "seeking", seeking)
    try:
        with pytest.raises(OSError, match="Illegal seek"):
            main.run(["seeking"])
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("name", ["help", "ls", "dump"])
def test_a_closed_stdout_is_told_in_words(name: str) -> None:
    done = _in_shell(PRINTING[name], ">&-")

    assert done.returncode == 3
    assert done.stderr == "stratalog: standard output is closed: redirect it to a file, or to /dev/null.\n"


@pytest.mark.parametrize(
    ("arguments", "redirected", "status"),
    [
        (["--version"], "2>/dev/full", 0),
        (["--version"], "2>&-", 0),
        (["ls", "/no/such"], "2>/dev/full", 3),
        (["ls", "/no/such"], "2>&-", 2),
    ],
)
def test_a_message_that_cannot_be_written_is_not_taken_for_a_finding(
    arguments: list[str], redirected: str, status: int
) -> None:
    assert _in_shell(arguments, redirected).returncode == status
