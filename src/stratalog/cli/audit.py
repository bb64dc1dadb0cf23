"""`stratalog audit`: checks every byte of every file, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import click

from stratalog.cli.options import FILE, Request, directory_options
from stratalog.cli.output import ExitCode, Output, output_options
from stratalog.cli.parquet import check_targets, parquet_option, write_parquet
from stratalog.cli.spark_options import by_host_option, engine_option, started_engine
from stratalog.errors import UsageError


@click.command(short_help="Check every byte of every file; nothing is changed.")
@directory_options
@click.option("--deep", "is_deep", is_flag=True, help="Also unpack and decode every record.")
@click.option(
    "--baseline",
    type=FILE,
    metavar="REPORT",
    help="The --json report of an earlier audit: read only what is new since then.",
)
@engine_option
@by_host_option
@parquet_option("Also write the findings to this Parquet file, a row each.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write the report as one page that needs no network, to attach to a ticket.",
)
@output_options
@click.pass_obj
def audit(
    output: Output,
    *,
    directories: tuple[str, ...],
    names: tuple[str, ...],
    config: Path | None,
    topic_settings: Path | None,
    now: int | None,
    is_deep: bool,
    baseline: Path | None,
    master: str | None,
    by_host: bool,
    to: Path | None,
    html: Path | None,
) -> ExitCode:
    """Check every byte of every file, and say what is wrong, what follows from it and what to do.

    Name log directories, of one broker or of several, as DIR or with --config. Nothing is locked or changed;
    a broker may run. Logs are checked batch by batch, indexes entry by entry, and snapshots, leader epochs,
    checkpoints and topic ids against the logs.

    Exit status: 0 if all is healthy; 1 if something was found; 2 for wrong usage; 3 if something could not be
    read.
    """
    from stratalog.operations.audit.audit import AuditRequest
    from stratalog.operations.audit.baseline import Baseline
    from stratalog.operations.audit.by_host import audit_by_host

    if by_host and (html is not None or baseline is not None):
        raise UsageError("--by-host cannot be combined with --html or --baseline, which are about one host.")
    request = Request.of(directories, config, topic_settings, now, are_here=not by_host)
    local = () if by_host else request.directories
    check_targets([each for each in (to, html) if each is not None], local)
    before = None if baseline is None else Baseline.parse(baseline.read_bytes(), str(baseline))
    with started_engine(output, "audit", master) as engine, output.progress() as on_progress:
        if by_host:
            report = audit_by_host(
                engine,
                request.directories,
                topics=names,
                sources=request.sources,
                deep=is_deep,
                now=request.clock(),
            )
        else:
            report = AuditRequest(
                directories=request.directories,
                names=names,
                sources=request.sources,
                is_deep=is_deep,
                is_mapped=html is not None,
                baseline=before,
                engine=engine,
                clock=request.clock,
            ).run(on_progress)
    if to is not None:
        write_parquet(report.to_arrow(), to)
    if html is not None:
        from stratalog.files.disk import Disk

        Disk().replace(html, report.to_html().encode("ascii"))
        output.say(f"The page is {html}.")
    return output.report(report)
