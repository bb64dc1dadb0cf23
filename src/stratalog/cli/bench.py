"""`stratalog bench startup`: how long loading takes with Kafka's strategies, an article's, and ours."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from stratalog.cli.output import Output, json_option
from stratalog.cli.size import parse_size
from stratalog.errors import UsageError
from stratalog.operations.words import counted, size_text

if TYPE_CHECKING:
    from stratalog.cli.startup.directory import Shape
    from stratalog.cli.startup.kafka_load import Strategy
    from stratalog.cli.startup.measuring import Measured
    from stratalog.cli.startup.rival import Rival

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
# Segments of the second directory can be small: loading it after a clean stop reads only the ends of logs.
_SMALL_SEGMENT = 256 << 10


@click.group()
def bench() -> None:
    """Run benchmarks on this machine."""


@bench.command()
@click.option("--partitions", default=8, show_default=True, type=click.IntRange(1, 10_000))
@click.option(
    "--segments",
    default=4,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="Number of segments in each partition.",
)
@click.option("--segment-bytes", default="64MiB", show_default=True, callback=parse_size)
@click.option("--batch-bytes", default="16KiB", show_default=True, callback=parse_size)
@click.option(
    "--unflushed",
    default=1,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="Number of segments in each partition that are not flushed at the power cut.",
)
@click.option(
    "--many-segments",
    default=1000,
    show_default=True,
    type=click.IntRange(0, 100_000),
    help="Also load this many small segments after a clean stop; 0: do not.",
)
@click.option(
    "--readers", "readers", multiple=True, default=(1, 2, 4), show_default=True, type=click.IntRange(1, 256)
)
@click.option(
    "--rounds",
    default=3,
    show_default=True,
    type=click.IntRange(1, 100),
    help="How often each strategy is measured in each state; the best and the median are shown.",
)
@click.option(
    "--strategy", "names", multiple=True, help="Measure only this strategy; repeatable. Default: all five."
)
@click.option(
    "--cold/--no-cold", default=True, help="Also measure with an empty cache, where it can be emptied."
)
@click.option("--svg", type=click.Path(path_type=Path), help="Draw a bar chart into this file.")
@click.option(
    "--kafka",
    type=_FOLDER,
    envvar="KAFKA_HOME",
    help="The Kafka to compare with. Default: one that is on the PATH, or in the cache of the tests.",
)
@click.option("--no-kafka", is_flag=True, help="Do not measure a real broker.")
@click.option("--work-dir", type=_FOLDER, help="Build the directory here.")
@json_option
@click.pass_obj
def startup(
    output: Output,
    *,
    partitions: int,
    segments: int,
    segment_bytes: int,
    batch_bytes: int,
    unflushed: int,
    many_segments: int,
    readers: tuple[int, ...],
    rounds: int,
    names: tuple[str, ...],
    cold: bool,
    svg: Path | None,
    kafka: Path | None,
    no_kafka: bool,
    work_dir: Path | None,
) -> None:
    """How long it takes to load a log directory, clean and after a power cut, with five strategies.

    A directory is built, brought into each state and loaded in five ways: as Kafka 2.1 did (every index
    mapped and checked, the newest segment scanned twice); the same without checks; the same with each segment
    scanned only once; the same with a check that is correct; and as Stratalog does. A second directory has
    1,000 small segments. A real broker, if there is one, loads both too. The tables show our gains beside
    those of an article that measured a 2.x broker on other hardware.
    """
    from stratalog.cli.startup.directory import Shape
    from stratalog.cli.startup.shown import LEFT_OUT, document, picture, sentences, tables
    from stratalog.cli.warming import warm_everything

    strategies = _chosen(names)
    rival = None if no_kafka else _rival(output, kafka)
    shape = Shape(
        partitions=partitions,
        segments=segments,
        segment_size=segment_bytes,
        batch_size=batch_bytes,
        unflushed=unflushed,
    )
    plan = _Plan(
        strategies, readers, rounds, _can_empty_caches(output) if cold else False, rival, kafka is not None
    )
    warm_everything()
    root = Path(tempfile.mkdtemp(prefix="stratalog-startup-", dir=work_dir))
    try:
        rows, shapes = _measure_all(output, plan, shape, many_segments, root)
    finally:
        shutil.rmtree(root)
    if svg is not None:
        svg.write_text(picture(rows, shapes))
        output.say(f"The chart is in {svg}.")
    output.show(
        {"measured": [document(row, rows) for row in rows], "left_out": LEFT_OUT},
        *tables(rows, shapes),
        verdict="\n".join([*sentences(rows), LEFT_OUT]),
    )


class _Plan(NamedTuple):
    strategies: tuple[Strategy, ...]
    readers: tuple[int, ...]
    rounds: int
    cold: bool
    rival: Rival | None
    is_named: bool  # the user named the rival, so it must work


def _measure_all(
    output: Output, plan: _Plan, shape: Shape, many: int, root: Path
) -> tuple[list[Measured], dict[str, Shape]]:
    """The rows, and for each state the shape of the directory that was loaded in it."""
    from stratalog.cli.startup.article import CLEAN, MANY, UNCLEAN

    rows = _measure(output, plan, root / "logs", shape, (CLEAN, UNCLEAN), plan.readers)
    shapes = {CLEAN: shape, UNCLEAN: shape}
    if many:
        # At most as many partitions as before, and a divisor of `many`, so that all have the same number of
        # segments.
        partitions = next(count for count in range(min(shape.partitions, many), 0, -1) if many % count == 0)
        shapes[MANY] = replace(
            shape, partitions=partitions, segments=many // partitions, segment_size=_SMALL_SEGMENT
        )
        rows += _measure(output, plan, root / "many", shapes[MANY], (MANY,), plan.readers[:1])
    return rows, shapes


def _measure(
    output: Output, plan: _Plan, path: Path, shape: Shape, states: tuple[str, ...], readers: tuple[int, ...]
) -> list[Measured]:
    from stratalog.cli.startup.directory import StartupDirectory
    from stratalog.cli.startup.measuring import Measuring

    directory = StartupDirectory(path, shape)
    output.say(
        f"Building {counted(shape.partitions, 'partition')} with {shape.total_segments:,} segments, "
        f"{size_text(shape.total_size)} ..."
    )
    directory.build()
    measuring = Measuring(directory, rounds=plan.rounds, cold=plan.cold, say=output.say)
    rows = measuring.strategies(plan.strategies, states, readers)
    if plan.rival is not None:
        try:
            rows += measuring.broker(plan.rival, states, readers)
        except UsageError as error:
            if plan.is_named:
                raise
            output.say(f"The broker is left out: {error}")
    directory.remove()
    return rows


def _chosen(names: tuple[str, ...]) -> tuple[Strategy, ...]:
    from stratalog.cli.startup.strategies import STRATEGIES

    known = {strategy.name: strategy for strategy in STRATEGIES}
    unknown = {*names} - {*known}
    if unknown:
        raise UsageError(
            f"{', '.join(sorted(unknown))}: there is no such strategy; the strategies are {', '.join(known)}."
        )
    return tuple(strategy for name, strategy in known.items() if not names or name in names)


def _rival(output: Output, kafka: Path | None) -> Rival | None:
    """The Kafka that was named, or else one that is found; prints why there is none."""
    from stratalog.cli.startup.rival import Rival, find_kafka

    if kafka is not None:
        return Rival(kafka)
    found = find_kafka(os.environ)
    why = "there is no Kafka on the PATH or in the cache of the tests"
    if found is not None:
        try:
            return Rival(found)
        except UsageError as error:
            why = str(error).rstrip(".")
    output.say(f"No real broker is measured: {why}. Name one with --kafka DIR or KAFKA_HOME.")
    return None


def _can_empty_caches(output: Output) -> bool:
    from stratalog.cli.startup.measuring import DROP_CACHES

    can_empty = os.access(DROP_CACHES, os.W_OK)
    if not can_empty:
        output.say(f"Nothing is measured with a cold cache: only root on Linux can empty it ({DROP_CACHES}).")
    return can_empty
