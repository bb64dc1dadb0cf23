"""`stratalog completion`: the script with which a shell completes commands, options and names."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from stratalog.cli.output import ExitCode
from stratalog.errors import InvalidNameError
from stratalog.files.names import parse_partition_directory

PROGRAM = "stratalog"
VARIABLE = "_STRATALOG_COMPLETE"  # click's name for the variable; the script sets it to get completions
SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, *, shell: str) -> ExitCode:
    """Print the script with which a shell completes commands, options, directories and topics.

    \b
    bash:  eval "$(stratalog completion bash)"     in ~/.bashrc
    zsh:   eval "$(stratalog completion zsh)"      in ~/.zshrc, after compinit
    fish:  stratalog completion fish | source      in ~/.config/fish/config.fish
    """
    found = get_completion_class(shell)
    assert found is not None, shell
    click.echo(found(context.find_root().command, {}, PROGRAM, VARIABLE).source())
    return ExitCode.FINE


def complete_directories(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The shell itself completes the names of directories."""
    return [CompletionItem(incomplete, type="dir")]


def complete_topics(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The topics of the directories that are already on the line."""
    # An option that still lacks its value ends click's parsing: the words before it are left in `args`.
    typed = (context.params.get(name) or () for name in ("directories", "places"))
    directories = [*chain.from_iterable(typed), *context.args]
    topics = {topic for directory in directories for topic in _topics(directory)}
    return [CompletionItem(topic) for topic in sorted(topics) if topic.startswith(incomplete)]


def _topics(directory: str) -> set[str]:
    try:
        names = [path.name for path in Path(directory).iterdir()]
    except OSError:
        return set()
    return {topic for name in names if (topic := _topic(name)) is not None}


def _topic(name: str) -> str | None:
    try:
        return parse_partition_directory(name).topic_partition.topic
    except InvalidNameError:
        return None
