"""`stratalog transactions`: open and hanging transactions, transactional ids, producers."""

from __future__ import annotations

from pathlib import Path

import click

from stratalog.cli.broker import BrokerFiles
from stratalog.cli.options import config_option, now_option, places_argument, split_places, topic_option
from stratalog.cli.output import ExitCode, Output, output_options
from stratalog.clock import system_clock


@click.command(short_help="List transactions: open, hanging, by producer.")
@places_argument
@config_option
@topic_option
@now_option
@click.option("--producers", "shows_all", is_flag=True, help="Also list every producer of each partition.")
@click.option(
    "--max-timeout",
    "longest_s",
    type=click.IntRange(min=0),
    default=900,
    show_default=True,
    metavar="SECONDS",
    help="The broker's transaction.max.timeout.ms: only a transaction that is silent for longer can hang.",
)
@output_options
@click.pass_obj
def transactions(
    output: Output,
    *,
    places: tuple[str, ...],
    config: Path | None,
    names: tuple[str, ...],
    now: int | None,
    shows_all: bool,
    longest_s: int,
) -> ExitCode:
    """List transactional ids, and the transactions that are open or hanging in the logs.

    Name all log directories of one broker, as DIR or with --config. NAME is a topic (orders) or a partition
    (orders-3). Nothing is locked or changed; a broker may run.

    Exit status: 0 if no transaction hangs; 1 if one does; 2 for wrong usage; 3 if a partition could not be
    read.
    """
    from stratalog.questions.transactions import TransactionsQuestion

    directories, typed = split_places(places, config)
    broker = BrokerFiles.of(config, directories)
    question = TransactionsQuestion(
        directories=broker.directories,
        names=(*typed, *names),
        shows_all=shows_all,
        longest_timeout_ms=longest_s * 1000,
        clock=system_clock if now is None else lambda: now,
    )
    return output.report(question.run())
