"""`stratalog offsets`: the offset for a time in each partition."""

from __future__ import annotations

from pathlib import Path

import click

from stratalog.cli.broker import BrokerFiles
from stratalog.cli.options import config_option, parse_moment, places_argument, split_places, topic_option
from stratalog.cli.output import ExitCode, Output, output_options

# Kafka's special values; log/timestamps.py, which is slow to import, has their meaning.
_SPECIAL = {"latest": -1, "-1": -1, "earliest": -2, "-2": -2, "max-timestamp": -3, "-3": -3}


def parse_time(context: click.Context, option: click.Parameter, text: str) -> int:
    """A time as kafka-get-offsets takes it, or a date; the callback of an option."""
    if text in _SPECIAL:
        return _SPECIAL[text]
    try:
        found = parse_moment(context, option, text)
    except click.BadParameter as error:
        raise click.BadParameter(f"{error.message} Or earliest, latest, max-timestamp.") from None
    assert found is not None
    return found


@click.command(short_help="Print the offset for a time in each partition.")
@places_argument
@config_option
@topic_option
@click.option(
    "--time",
    "time_ms",
    default="latest",
    metavar="TIME",
    callback=parse_time,
    help="earliest, latest, max-timestamp, or a time: the first offset from then on.  [default: latest]",
)
@output_options
@click.pass_obj
def offsets(
    output: Output,
    *,
    places: tuple[str, ...],
    config: Path | None,
    names: tuple[str, ...],
    time_ms: int,
) -> ExitCode:
    """Print the offset for a time in each partition, as kafka-get-offsets does, without a broker.

    Name log directories of one broker, as DIR or with --config. NAME is a topic (orders) or a partition
    (orders-3). Nothing is locked or changed; a broker may run.

    Exit status: 0 if everything was read; 2 for wrong usage; 3 if a partition could not be read.
    """
    from stratalog.questions.offsets import OffsetsQuestion

    directories, typed = split_places(places, config)
    broker = BrokerFiles.of(config, directories)
    question = OffsetsQuestion(directories=broker.directories, names=(*typed, *names), time=time_ms)
    return output.report(question.run())
