"""`stratalog demo`: build a log directory, damage it, and find the damage with a Spark job."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stratalog.cli.output import ExitCode, Output, json_option
from stratalog.cli.size import parse_size
from stratalog.errors import UsageError
from stratalog.operations.report import Table
from stratalog.operations.words import size_text, time_text

if TYPE_CHECKING:
    from stratalog.cli.demo_damage import Planted
    from stratalog.engine.engine import Engine
    from stratalog.jobs.damage import Damage
    from stratalog.jobs.walk import SegmentWalk, TopicWalk

SMALLEST_SIZE = 4_000_000
WAKING_TASKS = 64


@click.command()
@click.option(
    "--size",
    default="400MB",
    show_default=True,
    metavar="SIZE",
    callback=parse_size,
    help="Bytes of the log directory.",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Build the logs in this folder, and keep them.  [default: a temporary folder]",
)
@click.option("--master", default="local[*]", show_default=True, help="The Spark master.")
@click.option(
    "--engine",
    "engine_name",
    type=click.Choice(["spark", "threads"]),
    default="spark",
    show_default=True,
    help="How the segments are walked; threads need no Java.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="The same number gives the same bytes.")
@json_option
@click.pass_obj
def demo(
    output: Output, *, size: int, directory: Path | None, master: str, engine_name: str, seed: int
) -> ExitCode:
    """Build a log directory, damage it, and find the damage with a Spark job.

    The job walks every segment in parallel, reads every batch header and checks every checksum.
    """
    if size < SMALLEST_SIZE:
        raise UsageError(
            f"--size {size} is too small for five topics: give at least {size_text(SMALLEST_SIZE)}"
        )
    with _directory(output, directory) as root, _engine(output, engine_name, master) as engine:
        planted, walks, seconds = _build_and_walk(output, engine, root, size=size, seed=seed)
    from stratalog.cli.demo_damage import unexpected
    from stratalog.jobs.walk import by_topic

    problems = unexpected(planted, walks)
    topics = by_topic(walks)
    damages = [damage for walk in walks for damage in walk.damages]
    output.show(
        _document(topics, damages, planted, problems, seconds),
        _topics_table(topics),
        _damages_table(damages, planted, root),
        _advice_table(damages),
    )
    walked_size = sum(walk.size for walk in walks)
    rate = size_text(int(walked_size / seconds))
    output.say(f"Walked {size_text(walked_size)} in {seconds:.1f} s: {rate} a second.")
    for problem in problems:
        output.say(problem)
    if problems:
        return ExitCode.FAILED
    output.say(f"All {len(planted)} planted damages were found, each at its byte, and nothing else.")
    return ExitCode.FINE


def _build_and_walk(
    output: Output, engine: Engine, root: Path, *, size: int, seed: int
) -> tuple[list[Planted], list[SegmentWalk], float]:
    """(what was planted, what was found, how many seconds the walk took)."""
    from stratalog.cli.demo_damage import plant
    from stratalog.cli.demo_logs import build_logs
    from stratalog.files.disk import Disk
    from stratalog.jobs.walk import plan_walk, walk_logs

    disk = Disk()
    with output.progress("Building logs ") as on_progress:
        build_logs(root, size=size, seed=seed, disk=disk, on_progress=on_progress)
    segments = plan_walk(disk, [root])
    built_size = sum(segment.size for segment in segments)
    output.say(f"Built {len(segments)} segments, {size_text(built_size)}, in {root}.")
    planted = plant(segments)
    output.say(f"Damaged {len(planted)} of them.")
    began = time.perf_counter()
    with output.progress("Walking segments ") as on_progress:
        walks = walk_logs(engine, disk, [root], on_progress=on_progress)
    return planted, walks, time.perf_counter() - began


@contextmanager
def _directory(output: Output, directory: Path | None) -> Iterator[Path]:
    """The chosen directory, which must be new or empty, or a temporary one."""
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="stratalog-demo-") as temporary:
            yield Path(temporary)
        return
    if directory.exists() and any(directory.iterdir()):
        raise UsageError(f"{directory} is not empty: the demo damages what it finds, so give it a new folder")
    yield directory
    output.say(f"The damaged logs are in {directory}.")


@contextmanager
def _engine(output: Output, name: str, master: str) -> Iterator[Engine]:
    if name == "threads":
        from stratalog.engine.threads import ThreadEngine

        yield ThreadEngine()
        return
    from stratalog.engine.engine import results_in_order
    from stratalog.jobs.walk import wake_worker
    from stratalog.spark.engine import SparkEngine
    from stratalog.spark.session import session

    output.say(f"Starting Spark on {master} ...")
    with session("stratalog demo", master=master) as spark:
        engine = SparkEngine(spark)
        # The first job of a session takes seconds to start its workers, which would count as walking.
        results_in_order(engine.run(wake_worker, range(WAKING_TASKS)))
        yield engine


def _topics_table(topics: Sequence[TopicWalk]) -> Table:
    return Table(
        title="Topics",
        columns=["topic", "codec", ">segments", ">records", ">size", ">offsets", "!times (UTC)", ">damages"],
        rows=[
            [
                topic.topic,
                ", ".join(topic.codecs),
                f"{topic.segments_count}",
                f"{topic.records_count:,}",
                size_text(topic.size),
                f"{topic.first_offset} - {topic.last_offset}",
                f"{time_text(topic.first_timestamp)}\n{time_text(topic.last_timestamp)}",
                f"{len(topic.damages)}",
            ]
            for topic in topics
        ],
    )


def _damages_table(damages: Sequence[Damage], planted: Sequence[Planted], root: Path) -> Table:
    done = {(damage.path, damage.position): damage.what for damage in planted}
    return Table(
        title="Damage",
        columns=["!file", ">at byte", ">bytes lost", "planted", "found"],
        rows=[
            [
                str(Path(damage.path).relative_to(root)),
                f"{damage.position}",
                f"{damage.lost_size}",
                done.get((damage.path, damage.position), "nothing"),
                damage.kind.value,
            ]
            for damage in damages
        ],
    )


def _advice_table(damages: Sequence[Damage]) -> Table:
    return Table(
        title="What to do",
        columns=["!partition", "what was found, and what to do"],
        rows=[
            [
                Path(damage.path).parent.name,
                f"At byte {damage.position}: {damage.reason}\n{damage.kind.advice}",
            ]
            for damage in damages
        ],
    )


def _document(
    topics: Sequence[TopicWalk],
    damages: Sequence[Damage],
    planted: Sequence[Planted],
    problems: Sequence[str],
    seconds: float,
) -> dict[str, object]:
    return {
        "topics": [{**asdict(topic), "damages": len(topic.damages)} for topic in topics],
        "damages": [
            {**asdict(damage), "kind": damage.kind.value, "advice": damage.kind.advice} for damage in damages
        ],
        "planted": [asdict(damage) for damage in planted],
        "problems": list(problems),
        "seconds": round(seconds, 3),
    }
