"""`stratalog quarantine`: what `recover` has cut off and kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stratalog.cli.broker import BrokerFiles
from stratalog.cli.options import (
    check_directories,
    config_option,
    directories_argument,
    dry_run_option,
    parse_moment,
    topic_option,
)
from stratalog.cli.output import Command, ExitCode, Output, output_options
from stratalog.errors import UsageError

if TYPE_CHECKING:
    from stratalog.operations.quarantine import QuarantineRequest

_FOLDER = click.Path(exists=True, file_okay=False)
_id_option = click.option("--id", "wanted", required=True, metavar="ID", help="An id that `list` prints.")


def _options(command: Command) -> Command:
    for option in (
        click.option(
            "--quarantine",
            "places",
            type=_FOLDER,
            multiple=True,
            metavar="DIR",
            help="Also look into a directory that `recover --quarantine` has used; repeatable.",
        ),
        topic_option,
        config_option,
        directories_argument,
    ):
        command = option(command)
    return output_options(command)


@click.group(short_help="List, show, restore or purge what `recover` has kept.")
def quarantine() -> None:
    """List, show, restore or purge what `recover` has cut off and kept."""


@quarantine.command("list", short_help="List what is in quarantine.")
@_options
@click.pass_obj
def list_command(
    output: Output,
    *,
    directories: tuple[str, ...],
    config: Path | None,
    names: tuple[str, ...],
    places: tuple[str, ...],
) -> ExitCode:
    """List everything that recovery has cut off and kept, with the reason.

    Name log directories of one broker, as DIR or with --config. Nothing is locked or changed; a broker may
    run.
    """
    return output.report(_request(directories, config, names, places).listed())


@quarantine.command("show", short_help="Show the batches in a range that was kept.")
@_options
@_id_option
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=50,
    metavar="N",
    help="How many batches to list; default 50, 0 for all.",
)
@click.pass_obj
def show(
    output: Output,
    *,
    directories: tuple[str, ...],
    config: Path | None,
    names: tuple[str, ...],
    places: tuple[str, ...],
    wanted: str,
    top: int,
) -> ExitCode:
    """Show which batches are in a range that was kept. Nothing is locked or changed; a broker may run."""
    return output.report(_request(directories, config, names, places).show(wanted, top=top))


@quarantine.command("restore", short_help="Write a range that was kept to a file.")
@_options
@_id_option
@click.option(
    "--to",
    "target",
    required=True,
    metavar="FILE|DIR",
    help="A new file, or a folder; not in a log directory.",
)
@dry_run_option
@click.pass_obj
def restore(
    output: Output,
    *,
    directories: tuple[str, ...],
    config: Path | None,
    names: tuple[str, ...],
    places: tuple[str, ...],
    wanted: str,
    target: str,
    dry_run: bool,
) -> ExitCode:
    """Write a range that was kept to a new file, bit for bit; it also stays in quarantine.

    The bytes are compared with their SHA-256. If you name a folder, the file gets the name that it had in its
    log, so that `stratalog dump` can print it.
    """
    request = _request(directories, config, names, places)
    return output.report(request.restore(wanted, target, dry_run=dry_run))


@quarantine.command("purge", short_help="Delete what is in quarantine, permanently.")
@_options
@click.option("--id", "wanted", multiple=True, metavar="ID", help="An id that `list` prints; repeatable.")
@click.option("--all", "is_all", is_flag=True, help="Delete everything, or everything of the named topics.")
@click.option(
    "--before",
    metavar="TIME",
    callback=parse_moment,
    help="Delete what was kept before this time: milliseconds since 1970, or a date (UTC).",
)
@dry_run_option
@click.pass_obj
def purge(
    output: Output,
    *,
    directories: tuple[str, ...],
    config: Path | None,
    names: tuple[str, ...],
    places: tuple[str, ...],
    wanted: tuple[str, ...],
    is_all: bool,
    before: int | None,
    dry_run: bool,
) -> ExitCode:
    """Delete what is in quarantine, permanently. The logs are not touched.

    The broker must be stopped, and its directories shut down cleanly.
    """
    if sum((bool(wanted), is_all, before is not None)) != 1:
        raise UsageError("give one of --id, --before and --all: it says what to delete.")
    request = _request(directories, config, names, places)
    return output.report(request.purge(wanted, before_ms=before, dry_run=dry_run))


def _request(
    directories: tuple[str, ...], config: Path | None, names: tuple[str, ...], places: tuple[str, ...]
) -> QuarantineRequest:
    from stratalog.operations.quarantine import QuarantineRequest

    broker = BrokerFiles.of(config, directories)
    check_directories(directories)
    return QuarantineRequest(directories=broker.directories, places=places, names=names)
