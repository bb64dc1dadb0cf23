"""`stratalog retain`: delete segments past the limits of their topic, without a broker."""

from __future__ import annotations

from pathlib import Path

import click

from stratalog.cli.options import Request, change_options, directory_options, unclean_choice
from stratalog.cli.output import ExitCode, Output, output_options


@click.command(short_help="Delete old segments of a stopped broker.")
@directory_options
@change_options
@click.option("--purge", "purges", is_flag=True, help="Also remove at once whatever waits for its deletion.")
@output_options
@click.pass_obj
def retain(
    output: Output,
    *,
    directories: tuple[str, ...],
    names: tuple[str, ...],
    config: Path | None,
    topic_settings: Path | None,
    now: int | None,
    dry_run: bool,
    recovers: bool,
    purges: bool,
) -> ExitCode:
    """Delete old segments from the log directories of a stopped broker, by the limits of each topic.

    Name log directories of one broker, as DIR or with --config. A topic whose settings are not known is
    refused, because Kafka's defaults could delete what must stay. Files are renamed to .deleted, and a later
    run removes them; with --purge this run does, and also removes folders that are marked -delete.

    Exit status: 0 if everything was done or there was nothing to do; 1 if --recover cut something off or
    found something; 2 for wrong usage; 3 if a topic, a log or a directory was refused, something failed, or a
    broker will not start here.
    """
    from stratalog.operations.maintaining import Maintenance
    from stratalog.operations.retain import Retention

    request = Request.of(directories, config, topic_settings, now)
    maintenance = Maintenance(
        directories=request.directories,
        names=names,
        sources=request.sources,
        dry_run=dry_run,
        purges=purges,
        unclean=unclean_choice(recovers),
        clock=request.clock,
    )
    with output.progress() as on_progress:
        report = maintenance.run(Retention(), on_progress)
    return output.report(report)
