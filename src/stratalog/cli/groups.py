"""`stratalog groups`: consumer groups, what they committed, their lag."""

from __future__ import annotations

from pathlib import Path

import click

from stratalog.cli.broker import BrokerFiles
from stratalog.cli.options import check_directories, config_option, directories_argument
from stratalog.cli.output import ExitCode, Output, output_options


@click.command(short_help="List consumer groups: commits, lag, members.")
@directories_argument
@config_option
@click.option("--group", "names", multiple=True, metavar="NAME", help="Only this group; repeatable.")
@output_options
@click.pass_obj
def groups(
    output: Output, *, directories: tuple[str, ...], config: Path | None, names: tuple[str, ...]
) -> ExitCode:
    """List consumer groups with their commits, their lag and their members, without a broker.

    Name all log directories of one broker, as DIR or with --config. Nothing is locked or changed; a broker
    may run.

    Exit status: 0 if everything was read; 1 if the end of a log that a group reads is damaged; 2 for wrong
    usage; 3 if __consumer_offsets or a log that a group reads could not be read.
    """
    from stratalog.questions.groups import GroupsQuestion

    broker = BrokerFiles.of(config, directories)
    check_directories(directories)
    return output.report(GroupsQuestion(directories=broker.directories, names=names).run())
