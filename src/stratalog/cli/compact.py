"""`stratalog compact`: compact the logs of a stopped broker, in this process or on a cluster."""

from __future__ import annotations

from pathlib import Path

import click

from stratalog.cli.options import Request, change_options, directory_options, unclean_choice
from stratalog.cli.output import ExitCode, Output, output_options
from stratalog.cli.spark_options import engine_option, started_engine


@click.command(short_help="Compact the compacted topics of a stopped broker.")
@directory_options
@change_options
@engine_option
@output_options
@click.pass_obj
def compact(
    output: Output,
    *,
    directories: tuple[str, ...],
    names: tuple[str, ...],
    config: Path | None,
    topic_settings: Path | None,
    now: int | None,
    dry_run: bool,
    recovers: bool,
    master: str | None,
) -> ExitCode:
    """Compact what is dirty in the compacted logs of a stopped broker, however little it is.

    Name log directories of one broker, as DIR or with --config. The active segment stays as it is, and so do
    records that are not replicated yet, that are at or after the first open transaction, or that are younger
    than min.compaction.lag.ms. Old files are renamed to .deleted, and a later run removes them.

    Exit status: 0 if everything was done or there was nothing to do; 1 if --recover cut something off or
    found something; 2 for wrong usage; 3 if a topic, a log or a directory was refused, something failed, or a
    broker will not start here.
    """
    from stratalog.config import ManagerConfig
    from stratalog.operations.compact import Compaction
    from stratalog.operations.maintaining import Maintenance

    request = Request.of(directories, config, topic_settings, now)
    manager = ManagerConfig() if request.server is None else request.server.manager
    maintenance = Maintenance(
        directories=request.directories,
        names=names,
        sources=request.sources,
        dry_run=dry_run,
        unclean=unclean_choice(recovers),
        clock=request.clock,
    )
    # A dry run counts in this process what would be written, and checks whether the workers could write it.
    with started_engine(output, "compact", master) as engine, output.progress() as on_progress:
        report = maintenance.run(Compaction(manager, rehearses=dry_run, engine=engine), on_progress)
    return output.report(report)
