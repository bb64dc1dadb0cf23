"""`stratalog manual`: the man page, made from what `--help` prints."""

from __future__ import annotations

from collections.abc import Iterator

import click

from stratalog.cli.output import ExitCode
from stratalog.version import __version__

PROGRAM = "stratalog"
_AS_IT_IS = "\b"  # click's mark for a paragraph that is not wrapped


@click.command(short_help="Print the man page of all commands.")
@click.pass_context
def manual(context: click.Context) -> ExitCode:
    """Print the man page of all commands, as `man` reads it.

    \b
    stratalog manual | man -l -
    stratalog manual > ~/.local/share/man/man1/stratalog.1
    """
    root = context.find_root().command
    assert isinstance(root, click.Group)
    click.echo("\n".join(man_page(root)))
    return ExitCode.FINE


def man_page(root: click.Group) -> Iterator[str]:
    """The lines of the man page of a group and its commands."""
    context = click.Context(root, info_name=PROGRAM)
    yield f'.TH STRATALOG 1 "" "stratalog {__version__}" "User Commands"'
    yield ".SH NAME"
    yield f"{PROGRAM} \\- {_escaped(root.get_short_help_str(limit=200))}"
    yield ".SH SYNOPSIS"
    yield f".B {PROGRAM}"
    yield _escaped(" ".join(root.collect_usage_pieces(context)))
    yield ".SH DESCRIPTION"
    yield from _paragraphs(root.help or "")
    yield from _options(root, context)
    yield ".SH COMMANDS"
    for name in root.list_commands(context):
        yield from _command(root.commands[name], name, context)


def _command(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    if command.hidden:
        return
    context = click.Context(command, parent=parent, info_name=name)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f'.SS "{_escaped(usage)}"'
    yield from _paragraphs(command.help or "")
    yield from _options(command, context)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            yield from _command(command.commands[each], each, context)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and isinstance(parameter, click.Option):
            names, words = record
            yield ".TP"
            yield f"\\fB{_escaped(names)}\\fR"
            yield _line(words)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        lines = paragraph.strip("\n").splitlines()
        yield ".PP"
        if lines and lines[0].strip() == _AS_IT_IS:
            yield from (".nf", *map(_line, lines[1:]), ".fi")
        else:
            yield _line(" ".join(line.strip() for line in lines if line.strip()))


def _line(text: str) -> str:
    """A line of text, escaped if it begins with a dot or a quote: troff would read it as a command."""
    escaped = _escaped(text)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _escaped(text: str) -> str:
    """Text escaped for troff: backslashes and quotes, and hyphens so that they can be copied as ASCII."""
    return text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
