"""`stratalog manual`: a man page of every command and option, which troff formats without a complaint."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import click
import pytest

from stratalog.cli import main
from stratalog.cli.main import cli
from stratalog.cli.manual import man_page

groff = pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")


def commands(group: click.Group) -> Iterator[click.Command]:
    for command in group.commands.values():
        yield command
        if isinstance(command, click.Group):
            yield from commands(command)


def formatted(page: str) -> str:
    done = subprocess.run(
        ["groff", "-man", "-Tascii", "-ww", "-P-c", "-rHY=0"], input=page, capture_output=True, text=True
    )
    assert not done.stderr
    plain = subprocess.run(["col", "-bx"], input=done.stdout, capture_output=True, text=True)
    return " ".join(plain.stdout.split())


@groff
def test_a_formatter_shows_every_command_and_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["manual"]) == 0

    text = formatted(capsys.readouterr().out)
    for command in commands(cli):
        assert f"{command.name} " in text
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert all(name in text for name in parameter.opts), (command.name, parameter.opts)


def test_text_is_never_taken_for_a_command_of_troff() -> None:
    @click.group()
    def group() -> None:
        """Words.

        .TH is not a heading here, and C:\\logs is a path.
        """

    lines = list(man_page(group))

    assert "\\&.TH is not a heading here, and C:\\elogs is a path." in lines
    assert sum(line.startswith(".TH") for line in lines) == 1
