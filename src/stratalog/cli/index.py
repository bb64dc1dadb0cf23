"""`stratalog index`: rebuild the indexes of a stopped broker that are missing or wrong."""

from __future__ import annotations

from pathlib import Path

import click

from stratalog.cli.options import Request, change_options, directory_options, unclean_choice
from stratalog.cli.output import ExitCode, Output, output_options


@click.command(short_help="Rebuild indexes that are missing or wrong.")
@directory_options
@change_options
@output_options
@click.pass_obj
def index(
    output: Output,
    *,
    directories: tuple[str, ...],
    names: tuple[str, ...],
    config: Path | None,
    topic_settings: Path | None,
    now: int | None,
    dry_run: bool,
    recovers: bool,
) -> ExitCode:
    """Rebuild the indexes of a stopped broker's logs that are missing or wrong.

    Name log directories of one broker, as DIR or with --config. Each segment is read once, and its indexes
    are compared with its batches, entry by entry. An index that is right stays as it is. The logs are not
    changed. If an index is wrong in a partition with damage in a log, the partition is refused.

    Exit status: 0 if everything was done or there was nothing to do; 1 if --recover cut something off or
    found something; 2 for wrong usage; 3 if a partition or a directory was refused, something failed, or a
    broker will not start here.
    """
    from stratalog.operations.index import Reindexing

    request = Request.of(directories, config, topic_settings, now)
    asked = Reindexing(
        directories=request.directories,
        names=names,
        sources=request.sources,
        dry_run=dry_run,
        unclean=unclean_choice(recovers),
        clock=request.clock,
    )
    with output.progress() as on_progress:
        report = asked.run(on_progress)
    return output.report(report)
