"""`stratalog du`: what fills the disk, what retention frees next and when, and how fast the data grows."""

from __future__ import annotations

import json
from pathlib import Path

import click

from stratalog.cli.estimate import parse_delimiter
from stratalog.cli.options import (
    Request,
    config_option,
    now_option,
    places_argument,
    split_places,
    topic_option,
    topic_settings_option,
)
from stratalog.cli.output import ExitCode, Output, output_options
from stratalog.cli.parquet import check_targets
from stratalog.errors import DiskError

_DEFAULT_DELIMITER = b":"[0]


@click.command(short_help="Show what fills the disk, and when retention frees it.")
@places_argument
@click.option(
    "--by",
    type=click.Choice(["directory", "topic", "partition"]),
    help="What a row is; default topic, or partition if a name is given.",
)
@click.option("--keys", is_flag=True, help="Also read all records, and show what each key prefix takes.")
@click.option(
    "--prefix-size", type=click.IntRange(min=1), metavar="N", help="A prefix is the first N bytes of a key."
)
@click.option(
    "--prefix-delimiter",
    "delimiter",
    metavar="CHAR",
    callback=parse_delimiter,
    help="A prefix ends with this character; default ':'.",
)
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=20,
    metavar="N",
    help="How many rows to show; default 20, 0 for all.",
)
@click.option(
    "--ncdu",
    type=click.Path(dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Also write the list of all files to FILE, in the format that `ncdu -f` reads; with -, print only "
    "that list, to stdout.",
)
@topic_option
@config_option
@topic_settings_option
@now_option
@output_options
@click.pass_obj
def du(
    output: Output,
    *,
    places: tuple[str, ...],
    by: str | None,
    keys: bool,
    prefix_size: int | None,
    delimiter: int | None,
    top: int,
    ncdu: str | None,
    names: tuple[str, ...],
    config: Path | None,
    topic_settings: Path | None,
    now: int | None,
) -> ExitCode:
    """Show what fills the disk, what retention frees next and when, and the growth a day.

    Name log directories of one broker, as DIR or with --config. NAME is a topic (orders) or a partition
    (orders-3). Nothing is locked or changed; a broker may run. Every file is counted, the largest row comes
    first. Only --keys reads records.

    Exit status: 0 if everything was counted; 2 for wrong usage; 3 if something could not be read.
    """
    from stratalog.log.cleaning.tally import Prefix
    from stratalog.operations.du import By, DiskUsage

    directories, typed = split_places(places, config)
    names = (*typed, *names)
    request = Request.of(directories, config, topic_settings, now)
    check_targets([] if ncdu in (None, "-") else [Path(str(ncdu))], request.directories)
    if prefix_size is None and delimiter is None:
        delimiter = _DEFAULT_DELIMITER
    usage = DiskUsage(
        directories=request.directories,
        names=names,
        by=By(by or ("partition" if names else "topic")),
        keys=Prefix(size=prefix_size, delimiter=delimiter) if keys else None,
        top=top,
        sources=request.sources,
        clock=request.clock,
    )
    with output.progress() as on_progress:
        report = usage.run(on_progress)
    if ncdu == "-":
        click.echo(json.dumps(report.to_ncdu()))
        return ExitCode(int(report.status))
    if ncdu is not None:
        try:
            Path(ncdu).write_text(json.dumps(report.to_ncdu()), "utf-8")
        except OSError as error:
            raise DiskError(ncdu, f"it could not be written: {error.strerror}", error.errno or 0) from error
    return output.report(report)
