"""`stratalog bench startup`: how long loading takes, by the strategies that Kafka has used over the years."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stratalog.cli.output import Output, json_option
from stratalog.cli.size import parse_size
from stratalog.errors import UsageError
from stratalog.operations.report import Table
from stratalog.operations.words import size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stratalog.cli.startup.directory import StartupDirectory
    from stratalog.cli.startup.strategies import Strategy

KAFKA = "Kafka itself"

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
# Measured by the author of the report that first compared these strategies: a 2.x broker after a power cut.
MEASURED_ONCE = {
    ("kafka-2.1", "clean", 1): "30 s, 3 min 4 s",
    ("kafka-2.1", "unclean", 1): "1 h 16 min, 1 h 18 min",
    ("kafka-2.1", "unclean", 2): "1 h 36 min, 1 h 39 min",
    ("dedupe", "unclean", 1): "49 min, 50 min",
    ("dedupe", "unclean", 2): "51 min",
    ("dedupe", "unclean", 4): "53 min",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One row of the table."""

    strategy: str
    state: str
    cache: str
    readers: int
    seconds: float
    bytes_read: int | None = None
    segments_scanned: int | None = None
    segments_scanned_twice: int | None = None

    @property
    def measured_once(self) -> str:
        return MEASURED_ONCE.get((self.strategy, self.state, self.readers), "")


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
    "--readers", "readers", multiple=True, default=(1, 2, 4), show_default=True, type=click.IntRange(1, 256)
)
@click.option(
    "--strategy", "names", multiple=True, help="Measure only this strategy; repeatable. Default: all five."
)
@click.option(
    "--cold/--no-cold", default=True, help="Also measure with an empty cache, where it can be emptied."
)
@click.option("--svg", type=click.Path(path_type=Path), help="Draw a bar chart into this file.")
@click.option(
    "--kafka", type=_FOLDER, envvar="KAFKA_HOME", help="Also measure this Kafka, on a copy of the directory."
)
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
    readers: tuple[int, ...],
    names: tuple[str, ...],
    cold: bool,
    svg: Path | None,
    kafka: Path | None,
    work_dir: Path | None,
) -> None:
    """How long it takes to load a log directory, clean and after a power cut, by five strategies.

    A directory is built, brought into each state and loaded: as Kafka 2.1 did (every index read and checked,
    the newest segment scanned twice), without checks, with each segment scanned once, with a correct check,
    and as Stratalog does. With --kafka a real broker also loads a copy. The last column is the time that a
    2.x broker took on other hardware, in the report that named these strategies.
    """
    from stratalog.cli.startup.directory import Shape, StartupDirectory
    from stratalog.cli.startup.strategies import STRATEGIES
    from stratalog.cli.warming import warm_everything

    unknown = {*names} - {strategy.name for strategy in STRATEGIES}
    if unknown:
        raise UsageError(
            f"{', '.join(sorted(unknown))}: there is no such strategy; the strategies are "
            f"{_names(STRATEGIES)}."
        )
    shape = Shape(
        partitions=partitions, segments=segments, segment_size=segment_bytes, batch_size=batch_bytes
    )
    root = Path(tempfile.mkdtemp(prefix="stratalog-startup-", dir=work_dir))
    try:
        directory = StartupDirectory(root / "logs", shape)
        output.say(f"Building {partitions} partitions, {size_text(shape.total_size)} ...")
        directory.build()
        warm_everything()
        rows = _measure(output, directory, names, readers, cold=cold and os.access(DROP_CACHES, os.W_OK))
        if kafka is not None:
            rows += _measure_kafka(output, kafka, directory, readers)
    finally:
        shutil.rmtree(root)
    if svg is not None:
        svg.write_text(_chart(rows, shape.total_size))
        output.say(f"The chart is in {svg}.")
    output.show({"measured": [_document(row) for row in rows]}, _table(rows))


def _measure(
    output: Output,
    directory: StartupDirectory,
    names: tuple[str, ...],
    readers: tuple[int, ...],
    *,
    cold: bool,
) -> list[Measured]:
    from stratalog.cli.startup.strategies import STRATEGIES, load_by

    rows = []
    for strategy in STRATEGIES:
        if names and strategy.name not in names:
            continue
        for state, prepare in (("clean", directory.make_clean), ("unclean", directory.make_unclean)):
            for cache in ("warm", "cold") if cold else ("warm",):
                for count in readers:
                    prepare()
                    _set_cache(directory, cache)
                    output.say(f"{strategy.name}, {state}, {cache} cache, {count} readers ...")
                    found = load_by(strategy, str(directory.path), readers=count, config=directory.config)
                    rows.append(
                        Measured(
                            strategy=strategy.name,
                            state=state,
                            cache=cache,
                            readers=count,
                            seconds=found.seconds,
                            bytes_read=found.bytes_read,
                            segments_scanned=sum(times > 0 for times in found.scans.values()),
                            segments_scanned_twice=found.scanned_twice,
                        )
                    )
    return rows


def _measure_kafka(
    output: Output, kafka: Path, directory: StartupDirectory, readers: tuple[int, ...]
) -> list[Measured]:
    from stratalog.cli.startup.rival import load_with_kafka

    rows = []
    for state, prepare in (("clean", directory.make_clean), ("unclean", directory.make_unclean)):
        for count in readers:
            prepare()
            output.say(f"Kafka itself, {state}, {count} threads ...")
            seconds = load_with_kafka(kafka, directory.path, threads=count)
            rows.append(Measured(strategy=KAFKA, state=state, cache="warm", readers=count, seconds=seconds))
    return rows


def _set_cache(directory: StartupDirectory, cache: str) -> None:
    """Fill the page cache by reading everything once, or empty it."""
    os.sync()
    if cache == "cold":
        DROP_CACHES.write_text("3")
        return
    buffer = bytearray(1 << 20)
    for path in directory.logs():
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def _names(strategies: Sequence[Strategy]) -> str:
    return ", ".join(strategy.name for strategy in strategies)


def _document(row: Measured) -> dict[str, object]:
    return {**asdict(row), "seconds": round(row.seconds, 4), "measured_once": row.measured_once or None}


def _table(rows: list[Measured]) -> Table:
    return Table(
        title="Loading a log directory",
        columns=[
            "strategy",
            "state",
            "cache",
            ">readers",
            ">seconds",
            ">read",
            ">scanned",
            ">twice",
            "in the report",
        ],
        rows=[
            [
                row.strategy,
                row.state,
                row.cache,
                f"{row.readers}",
                f"{row.seconds:.3f}",
                "" if row.bytes_read is None else size_text(row.bytes_read),
                _number(row.segments_scanned),
                _number(row.segments_scanned_twice),
                row.measured_once,
            ]
            for row in rows
        ],
    )


def _number(value: int | None) -> str:
    return "" if value is None else f"{value}"


def _chart(rows: list[Measured], size: int) -> str:
    from stratalog.cli.startup.chart import ChartBar, bar_chart

    groups = []
    for state, cache in dict.fromkeys((row.state, row.cache) for row in rows):
        bars = [
            ChartBar(f"{row.strategy}, {row.readers} readers", row.seconds, _beside(row), number)
            for row in rows
            if (row.state, row.cache) == (state, cache)
            for number in (sorted({other.readers for other in rows}).index(row.readers),)
        ]
        groups.append((f"{state}, {cache} cache: seconds", bars))
    return bar_chart(f"Loading a log directory of {size_text(size)}", groups)


def _beside(row: Measured) -> str:
    return f"{row.seconds:.2f} s" + (f"  (older report: {row.measured_once})" if row.measured_once else "")
