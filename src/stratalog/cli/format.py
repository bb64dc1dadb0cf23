"""`stratalog format`: turn log directories into those of a stand-alone broker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from stratalog.cli.broker import BrokerFiles
from stratalog.cli.options import (
    check_directories,
    config_option,
    directories_argument,
    dry_run_option,
    settings_text,
    topic_settings_option,
)
from stratalog.cli.output import ExitCode, Output, output_options
from stratalog.directory.formatting.releases import DEFAULT_RELEASE, RELEASES
from stratalog.errors import UsageError


def parse_counts(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> dict[str, int]:
    """Parse TOPIC=COUNT, which can be repeated."""
    counts = {}
    for text in texts:
        topic, _, count = text.rpartition("=")
        if not topic or not count.isdecimal():
            raise click.BadParameter(f"{text!r} is not TOPIC=COUNT, as in orders=6.")
        counts[topic] = int(count)
    return counts


@click.command("format", short_help="Turn new directories into those of a stand-alone broker.")
@directories_argument
@config_option
@topic_settings_option
@click.option(
    "--partitions",
    "counts",
    multiple=True,
    metavar="TOPIC=COUNT",
    callback=parse_counts,
    help="The number of partitions of a topic, also of a new one. The default is the highest "
    "partition number here plus one, or the number that the Spark sink has noted, if that is higher; "
    "repeatable.",
)
@click.option("--cluster-id", metavar="ID", help="The id of the cluster; by default a new one is generated.")
@click.option(
    "--node-id",
    type=click.IntRange(0),
    metavar="N",
    help="The id of the node; without --config, 1 by default.",
)
@click.option(
    "--controller",
    metavar="HOST:PORT",
    help="Where the broker's controller will listen; without --config, localhost:9093 by default.",
)
@click.option(
    "--release",
    type=click.Choice(RELEASES),
    default=DEFAULT_RELEASE,
    show_default=True,
    help="The oldest release of Kafka that will be started here.",
)
@dry_run_option
@output_options
@click.pass_obj
def format_command(
    output: Output,
    *,
    directories: tuple[str, ...],
    config: Path | None,
    topic_settings: Path | None,
    counts: dict[str, int],
    cluster_id: str | None,
    node_id: int | None,
    controller: str | None,
    release: str,
    dry_run: bool,
) -> ExitCode:
    """Turn log directories that no broker has used into those of a stand-alone broker.

    Name all log directories of the node, as DIR or with --config; those of --config are created if necessary.
    The topics in them, with their ids and settings, become the metadata of a new cluster, and a broker serves
    them. The command can be killed and run again.

    Exit status: 0 if everything was done; 1 if it was done, but a damaged log had to be cut; 2 for wrong
    usage; 3 if a directory is already formatted, is in use or was not shut down cleanly, or if a broker would
    refuse to start here even after formatting.
    """
    from stratalog.config.quorum import parse_endpoint
    from stratalog.directory.formatting.choices import FormatOptions
    from stratalog.directory.formatting.format import format_directories
    from stratalog.operations.format_report import FormatReport

    broker = BrokerFiles.of(config, directories)
    check_directories(directories)
    if missing := broker.not_named():
        raise UsageError(
            f"{config} has {', '.join(missing)} in log.dirs too: name all log directories of the broker, or "
            "none."
        )
    options = (
        FormatOptions() if config is None else FormatOptions.from_properties(config.read_text("latin-1"))
    )
    options = replace(
        options,
        cluster_id=cluster_id,
        node_id=node_id,
        controller=None if controller is None else parse_endpoint(controller),
        topic_settings=None if topic_settings is None else settings_text(topic_settings),
        partitions=counts,
        release=release,
        dry_run=dry_run,
    )
    return output.report(FormatReport.of(format_directories(broker.in_order(), options), config))
