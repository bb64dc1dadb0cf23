"""`stratalog explain`: why a segment is still there, or which rule will delete it, and when."""

from __future__ import annotations

from pathlib import Path

import click

from stratalog.cli.options import Request, directory_options
from stratalog.cli.output import ExitCode, Output, output_options


@click.command(short_help="Why is each segment still there?")
@directory_options
@output_options
@click.pass_obj
def explain(
    output: Output,
    *,
    directories: tuple[str, ...],
    names: tuple[str, ...],
    config: Path | None,
    topic_settings: Path | None,
    now: int | None,
) -> ExitCode:
    """Explain why each segment is still there, or which rule deletes it, and when.

    Name log directories of one broker, as DIR or with --config. Nothing is locked or changed; a broker may
    run. If the settings of a topic are not known, Kafka's defaults are used, and the report says so. It also
    says if an answer depends on a high watermark that only a running broker knows.

    Exit status: 0 if everything was read; 2 for wrong usage; 3 if a partition could not be read.
    """
    from stratalog.operations.explain import Explanation

    request = Request.of(directories, config, topic_settings, now)
    explanation = Explanation(
        directories=request.directories, names=names, sources=request.sources, clock=request.clock
    )
    return output.report(explanation.run())
