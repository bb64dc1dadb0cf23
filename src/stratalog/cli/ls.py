"""`stratalog ls`: the topics of log directories, the partitions of a topic, the segments of a partition."""

from __future__ import annotations

from pathlib import Path

import click

from stratalog.cli.options import (
    Request,
    config_option,
    places_argument,
    split_places,
    topic_option,
    topic_settings_option,
)
from stratalog.cli.output import ExitCode, Output, output_options


@click.command(short_help="List topics, a topic's partitions, or a partition's segments.")
@places_argument
@topic_option
@config_option
@topic_settings_option
@output_options
@click.pass_obj
def ls(
    output: Output,
    *,
    places: tuple[str, ...],
    names: tuple[str, ...],
    config: Path | None,
    topic_settings: Path | None,
) -> ExitCode:
    """List topics; or the partitions of a topic, or the segments of a partition.

    Name log directories of one broker, as DIR or with --config. NAME is a topic (orders) or a partition
    (orders-3). Nothing is locked or changed; a broker may run. Only names, sizes, indexes and the first and
    last batch of each log are read.

    On a narrow terminal columns are left out, in this order: epoch, time index entries, index entries, first
    time, codec, segments, first offset, policy, partitions, clean, last time. The title names the columns
    that are left out; --plain prints all, and so does a pipe.

    Exit status: 0 if everything was listed; 2 for wrong usage; 3 if a partition could not be read.
    """
    from stratalog.operations.ls import TopicListing

    directories, typed = split_places(places, config)
    request = Request.of(directories, config, topic_settings, None)
    listing = TopicListing(
        directories=request.directories,
        names=(*typed, *names),
        sources=request.sources,
        clock=request.clock,
    )
    return output.report(listing.run())
