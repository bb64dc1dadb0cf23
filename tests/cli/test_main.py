"""The frame around the commands: exit statuses, and who prints errors where."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest

from stratalog import __version__
from stratalog.cli import main
from stratalog.cli.output import Output, json_option
from stratalog.errors import DiskError, StratalogError, UsageError
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
