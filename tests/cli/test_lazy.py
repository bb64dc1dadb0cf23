"""Commands are imported when they are used, and all of them are found."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest

from stratalog.cli.lazy import LazyCommands
from stratalog.cli.main import COMMANDS, cli
from tests.waiting import PATIENCE_S

# What a fresh interpreter has imported after a command.
IMPORTED = """
import atexit, json, sys
atexit.register(lambda: print("\\n" + json.dumps(sorted(sys.modules))))
from stratalog.cli.main import main
main()
"""


def imported(*arguments: str) -> set[str]:
    """The modules of commands that a run imports."""
    command = [sys.executable, "-c", IMPORTED, *arguments]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout
    modules = json.loads(printed.splitlines()[-1])
    return {name for name in COMMANDS if f"stratalog.cli.{name}" in modules}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_name_leads_to_its_command(name: str) -> None:
    found = cli.get_command(click.Context(cli), name)

    assert found is not None
    assert found.name == name
    assert cli.commands[name] is found


def test_a_version_imports_no_command() -> None:
    assert imported("--version") == set()


def test_a_command_imports_no_other() -> None:
    assert imported("retain", "--help") <= {"retain", "completion"}  # which completes names of topics


def test_help_lists_every_command_in_order() -> None:
    assert cli.list_commands(click.Context(cli)) == sorted(COMMANDS)


def test_an_unknown_name_leads_nowhere() -> None:
    group = LazyCommands(modules={})

    assert group.get_command(click.Context(group), "none") is None


def test_commands_can_be_added() -> None:
    group = LazyCommands(modules={"ls": "stratalog.cli.ls"})
    group.add_command(click.Command("mine"))

    assert group.list_commands(click.Context(group)) == ["ls", "mine"]
    assert set(group.commands) == {"ls", "mine"}
