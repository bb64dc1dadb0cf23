"""`stratalog estimate`: what compaction would free, by topic, by key and by key prefix."""

from __future__ import annotations

from pathlib import Path

import click

from stratalog.cli.options import Request, directory_options
from stratalog.cli.output import ExitCode, Output, output_options
from stratalog.cli.parquet import check_targets, parquet_option, write_parquet
from stratalog.cli.spark_options import by_host_option, engine_option, started_engine

_FOLDER = click.Path(exists=True, file_okay=False, writable=True)


def parse_delimiter(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """Parse a delimiter, which must be one byte, because keys are bytes; the callback of an option."""
    if text is None:
        return None
    if len(text.encode()) != 1:
        raise click.BadParameter(f"{text!r} is not one character of ASCII.")
    return text.encode()[0]


@click.command(short_help="How much would compaction free in each topic?")
@directory_options
@click.option(
    "--sample",
    type=click.IntRange(min=2),
    metavar="N",
    help="Draw N batches from each partition instead of reading all: faster; the report has an error bound.",
)
@click.option("--seed", type=int, default=0, help="Seed of the draw: another seed draws other batches.")
@click.option(
    "--prefix-size", type=click.IntRange(min=1), metavar="N", help="Also group keys by their first N bytes."
)
@click.option(
    "--prefix-delimiter",
    "delimiter",
    metavar="CHAR",
    callback=parse_delimiter,
    help="Also group keys by the part before this character.",
)
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=10,
    metavar="N",
    help="How many keys and prefixes to list; default 10.",
)
@click.option(
    "--work-dir",
    type=_FOLDER,
    help="Folder for temporary files, needed for a log with more keys than the offset map holds.",
)
@engine_option
@by_host_option
@parquet_option("Also write the partitions to this Parquet file, a row each.")
@output_options
@click.pass_obj
def estimate(
    output: Output,
    *,
    directories: tuple[str, ...],
    names: tuple[str, ...],
    config: Path | None,
    topic_settings: Path | None,
    now: int | None,
    sample: int | None,
    seed: int,
    prefix_size: int | None,
    delimiter: int | None,
    top: int,
    work_dir: str | None,
    master: str | None,
    by_host: bool,
    to: Path | None,
) -> ExitCode:
    """Estimate what compaction would free in each topic, compacted or not, and list the largest keys.

    Name log directories of one broker, as DIR or with --config. Nothing is locked or changed; a broker may
    run. After a full pass the estimate is, to the byte, what `compact` frees at the same current time. A
    topic that is not compacted is estimated as if cleanup.policy were compact.

    Exit status: 0 if everything was estimated; 2 for wrong usage; 3 if a partition could not be read.
    """
    from stratalog.config import ManagerConfig
    from stratalog.log.cleaning.tally import Prefix
    from stratalog.operations.estimate import Estimation
    from stratalog.operations.estimate_by_host import estimate_by_host

    request = Request.of(directories, config, topic_settings, now, are_here=not by_host)
    check_targets([] if to is None else [to], () if by_host else request.directories)
    has_prefix = prefix_size is not None or delimiter is not None
    with started_engine(output, "estimate", master) as engine, output.progress() as on_progress:
        asked = Estimation(
            directories=request.directories,
            names=names,
            sources=request.sources,
            manager=ManagerConfig() if request.server is None else request.server.manager,
            draws=sample,
            seed=seed,
            prefix=Prefix(size=prefix_size, delimiter=delimiter) if has_prefix else None,
            top=top,
            work_dir=work_dir,
            engine=engine,
            clock=request.clock,
        )
        if by_host:
            report = estimate_by_host(engine, request.directories, asked, request.clock())
        else:
            report = asked.run(on_progress)
    if to is not None:
        write_parquet(report.to_arrow(), to)
    return output.report(report)
