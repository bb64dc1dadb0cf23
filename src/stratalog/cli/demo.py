"""`stratalog demo`: build a log directory, damage it, and find the damage with an audit on Spark."""

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
from stratalog.operations.words import size_text

if TYPE_CHECKING:
    from stratalog.cli.demo_damage import Planted
    from stratalog.engine.engine import Engine
    from stratalog.operations.audit.audit_report import AuditReport
    from stratalog.operations.audit.finding import AuditFinding

SMALLEST_SIZE = 4_000_000
WAKING_TASKS = 64


@click.command(short_help="Build a log directory, damage it, and find the damage.")
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
    help="How the segments are audited; threads need no Java.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="The same number gives the same bytes.")
@json_option
@click.pass_obj
def demo(
    output: Output, *, size: int, directory: Path | None, master: str, engine_name: str, seed: int
) -> ExitCode:
    """Build a log directory, damage it, and find the damage with an audit on Spark.

    Each task reads a segment, checks every checksum, and compares the indexes with the batches.
    """
    if size < SMALLEST_SIZE:
        raise UsageError(
            f"--size {size} is too small for five topics: give at least {size_text(SMALLEST_SIZE)}"
        )
    with _directory(output, directory) as root, _engine(output, engine_name, master) as engine:
        planted, report, seconds = _build_and_audit(output, engine, root, size=size, seed=seed)
    from stratalog.cli.demo_damage import log_damages, unexpected

    problems = unexpected(planted, report)
    topics, _, advice = report.tables()
    output.show(
        {
            **report.to_document(),
            "planted": [asdict(damage) for damage in planted],
            "problems": problems,
            "seconds": round(seconds, 3),
        },
        topics,
        _damages_table(log_damages(report), planted),
        advice,
    )
    read_size = report.totals()["bytes_read"]
    rate = size_text(int(read_size / seconds))
    output.say(f"Audited {size_text(read_size)} in {seconds:.1f} s: {rate} a second.")
    for problem in problems:
        output.say(problem)
    if problems:
        return ExitCode.FAILED
    output.say(f"All {len(planted)} planted damages were found, each at its byte, and no other in a log.")
    return ExitCode.FINE


def _build_and_audit(
    output: Output, engine: Engine, root: Path, *, size: int, seed: int
) -> tuple[list[Planted], AuditReport, float]:
    """(what was planted, what was found, how many seconds the audit took)."""
    from stratalog.cli.demo_damage import plant
    from stratalog.cli.demo_logs import build_logs
    from stratalog.files.disk import Disk
    from stratalog.operations.audit.audit import audit

    disk = Disk()
    with output.progress("Building logs ") as on_progress:
        logs = build_logs(root, size=size, seed=seed, disk=disk, on_progress=on_progress)
    built_size = sum(log.stat().st_size for log in logs)
    output.say(f"Built {len(logs)} segments, {size_text(built_size)}, in {root}.")
    planted = plant(logs)
    output.say(f"Damaged {len(planted)} of them.")
    began = time.perf_counter()
    with output.progress("Auditing segments ") as on_progress:
        report = audit([root], engine=engine, on_progress=on_progress)
    return planted, report, time.perf_counter() - began


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
    from stratalog.spark.engine import SparkEngine
    from stratalog.spark.session import session
    from stratalog.spark.workers import wake_worker

    output.say(f"Starting Spark on {master} ...")
    with session("stratalog demo", master=master) as spark:
        engine = SparkEngine(spark)
        # The first job of a session takes seconds to start its workers, which would count as auditing.
        results_in_order(engine.run(wake_worker, range(WAKING_TASKS)))
        yield engine


def _damages_table(damages: Sequence[AuditFinding], planted: Sequence[Planted]) -> Table:
    done = {(damage.path, damage.position): damage.what for damage in planted}
    return Table(
        title="Damage",
        columns=["!file", ">at byte", ">bytes lost", "planted", "found", "which means"],
        rows=[
            [
                f"{damage.partition}/{damage.file}",
                f"{damage.position}",
                f"{damage.size}",
                done.get((path_of(damage), damage.position or 0), "nothing"),
                damage.kind.value,
                damage.words,
            ]
            for damage in damages
        ],
    )


def path_of(finding: AuditFinding) -> str:
    """The path of the file that a finding is about."""
    return str(Path(finding.directory, finding.partition, finding.file))
