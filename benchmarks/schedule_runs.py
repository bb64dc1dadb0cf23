"""Measures audits on Spark for `schedule.py`, each in a new process, and what Spark costs without data."""

from __future__ import annotations

import json
import operator
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.audit import LARGE_BATCH, write_directory
from benchmarks.load_unclean import on_threads, read_only, warm
from stratalog.engine.engine import Engine, Result, Task, TaskFunction, TaskOutcome, results_in_order
from stratalog.operations.audit.audit import audit
from stratalog.operations.audit.segment_task import AuditTask
from stratalog.spark.engine import SparkEngine
from stratalog.spark.session import session

ROOT = Path(__file__).parent.parent
DIRECTORIES = 8  # of a GB each
PARTITIONS_IN_A_DIRECTORY, MANY_PARTITIONS = 4, 32
# Packs and tasks of the empty jobs; four jobs are enough to determine four costs.
FEW_PACKS, MORE_PACKS = 4, 40
FEW_TASKS, MORE_TASKS = 40, 10_000
REPEATS = 3  # of what is measured in one session
FIT_REPEATS = 7  # of audits with bytes: one GB more or less takes a third of a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A Spark to measure: its master, the environment of its drivers, and how many cores it has."""

    name: str
    master: str
    environ: Mapping[str, str]
    cores: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Log directories of a GB each, and two of almost no bytes: of 2 segments, and of 64."""

    directories: tuple[Path, ...]
    tiny: Path
    many: Path

    @property
    def size(self) -> int:
        """The bytes of one directory's logs."""
        return sum(log.stat().st_size for log in self.logs(1))

    def logs(self, directories_count: int) -> list[Path]:
        found = [sorted(path.glob("*/*.log")) for path in self.directories[:directories_count]]
        return [log for logs in found for log in logs]


def build(work: Path, scale: float) -> Data:
    """Each directory is one that was shut down cleanly."""
    directories = tuple(work / f"disk-{number}" for number in range(DIRECTORIES))
    for path in directories:
        write_directory(path, LARGE_BATCH, PARTITIONS_IN_A_DIRECTORY, scale)
    data = Data(directories=directories, tiny=work / "tiny", many=work / "many")
    write_directory(data.tiny, LARGE_BATCH, 1, 0.0005)
    write_directory(data.many, LARGE_BATCH, MANY_PARTITIONS, 0.0005)
    return data


def forget(logs: Sequence[Path]) -> None:
    """Remove these files from the page cache, and nothing else."""
    for log in logs:
        descriptor = os.open(log, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRates:
    """Bytes a second that plain readers get from the disk: one alone, and one for each core together."""

    one: float
    together: float


def plain_rate(logs: Sequence[Path], readers: int) -> float:
    """The bytes a second that so many plain readers get from the disk together."""
    forget(logs)
    return sum(log.stat().st_size for log in logs) / on_threads(read_only, list(logs), readers)


def measure(
    target: Target, action: str, paths: Sequence[Path], *, before: Callable[[], object]
) -> dict[str, float]:
    """What one new process measures: `audit` or `fit` with these directories, or `probe` with tiny ones."""
    before()
    command = [sys.executable, "-c", "from benchmarks.schedule_runs import child; child()"]
    command += [target.master, action, *map(str, paths)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**target.environ},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the {action} on {target.name} failed:\n{done.stderr[-4000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def medians(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each measured value."""
    return {name: median(run[name] for run in runs) for name in runs[0]}


def child() -> None:
    """Start a session, measure, and print the seconds as JSON."""
    master, action, *paths = sys.argv[1:]
    began = time.perf_counter()
    with session("stratalog schedule", master=master) as spark:
        engine = SparkEngine(spark)
        found = {"session_s": time.perf_counter() - began}
        if action == "probe":
            found |= _probe(engine, *paths)
        else:
            found |= _audit(engine, paths) if action == "audit" else _fit(engine, *paths)
    print(json.dumps(found))


def _audit(engine: Engine, paths: Sequence[str]) -> dict[str, float]:
    timed = TimedEngine(engine)
    began = time.perf_counter()
    report = audit(paths, engine=timed)
    seconds = time.perf_counter() - began
    assert report.status == 0, report.verdict
    return {"seconds": seconds, "driver_s": seconds - timed.seconds, "result_size": timed.result_size}


def _fit(engine: Engine, one: str, two: str) -> dict[str, float]:
    """Audits of one directory and of both, cached and not, and plain reads of them, after a first audit.

    All are in one session: the start of a session and of its workers varies by more than a GB takes. They
    come by turns: a JVM gets faster with each audit, and what comes last would seem to take no time.
    """
    first = _audit(engine, [one])
    sizes = {"one": [one], "both": [one, two]}
    turns = []
    for _ in range(1 + FIT_REPEATS):
        turn = {}
        for name, paths in sizes.items():
            logs = [log for path in paths for log in Path(path).glob("*/*.log")]
            warm(logs)
            turn[f"{name}_s"] = _audit(engine, paths)["seconds"]
            turn[f"{name}_plain_s"] = sum(log.stat().st_size for log in logs) / plain_rate(logs, 1)
            forget(logs)
            turn[f"{name}_cold_s"] = _audit(engine, paths)["seconds"]
        turns.append(turn)
    # What lies below a virtual disk may cache, too, so the first turn would be of another disk.
    found = medians(turns[1:])
    return {"first_s": first["seconds"], "result_size": first["result_size"], **found}


def _probe(engine: SparkEngine, tiny: str, many: str) -> dict[str, float]:
    """Measure the tiny audit twice (the first also starts the workers), that of many segments, empty jobs."""
    found = {"first_s": _audit(engine, [tiny])["seconds"]}
    for name, path in (("tiny", tiny), ("many", many)):
        again = min((_audit(engine, [path]) for _ in range(REPEATS)), key=lambda each: each["seconds"])
        found |= {f"{name}_s": again["seconds"], f"{name}_driver_s": again["driver_s"]}
    if engine.cores > 1:
        return found  # packs that run in parallel do not show the cost of one pack
    for packs in (FEW_PACKS, MORE_PACKS):
        for tasks in (FEW_TASKS, MORE_TASKS):
            found[f"empty_{packs}_{tasks}_s"] = min(_empty(engine, packs, tasks) for _ in range(REPEATS))
    return found


def _empty(engine: SparkEngine, packs: int, tasks_count: int) -> float:
    """A job whose tasks are those of an audit and do nothing."""
    engine_of_packs = SparkEngine(engine.spark)
    engine_of_packs.packs_count = packs
    tasks = [
        AuditTask(
            directory=f"/mnt/disk-{number % 10}/topic-{number // 10}",
            topic="topic",
            base_offset=number << 20,
            size=1 << 30,
            next_base=None,
            was_closed=True,
            now_ms=0,
        )
        for number in range(tasks_count)
    ]
    began = time.perf_counter()
    # Any function of a disk and a task that workers can import will do.
    results_in_order(engine_of_packs.run(operator.is_not, tasks))
    return time.perf_counter() - began


class TimedEngine:
    """Another engine, with the time that its caller has waited for it, and the bytes of its results."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.seconds, self.result_size = 0.0, 0

    def run(
        self,
        function: TaskFunction[Task, Result],
        tasks: Sequence[Task],
        **options: Any,  # Any: whatever the engine takes
    ) -> Generator[TaskOutcome[Task, Result], None, None]:
        outcomes = self._engine.run(function, tasks, **options)
        while True:
            began = time.perf_counter()
            outcome = next(outcomes, None)
            self.seconds += time.perf_counter() - began
            if outcome is None:
                return
            self.result_size += len(pickle.dumps(outcome.value))
            yield outcome


def per_pack_costs(found: Mapping[str, float]) -> dict[str, float]:
    """The costs of a job, a pack, and a unit sent with a pack, on one core, from the four empty jobs.

    An empty job takes job_s + packs * task_s + packs * tasks * carried_s + tasks * (one unit's own part).
    """

    def of(packs: int, tasks: int) -> float:
        return found[f"empty_{packs}_{tasks}_s"]

    more_packs, more_tasks = MORE_PACKS - FEW_PACKS, MORE_TASKS - FEW_TASKS
    by_pack_few = (of(MORE_PACKS, FEW_TASKS) - of(FEW_PACKS, FEW_TASKS)) / more_packs
    by_pack_more = (of(MORE_PACKS, MORE_TASKS) - of(FEW_PACKS, MORE_TASKS)) / more_packs
    carried = max(0.0, (by_pack_more - by_pack_few) / more_tasks)
    task = max(0.0, by_pack_few - carried * FEW_TASKS)
    own = (of(FEW_PACKS, MORE_TASKS) - of(FEW_PACKS, FEW_TASKS)) / more_tasks - FEW_PACKS * carried
    fixed = of(FEW_PACKS, FEW_TASKS) - FEW_PACKS * task - FEW_TASKS * (FEW_PACKS * carried + own)
    return {"job_s": max(0.0, fixed), "task_s": task, "carried_s": carried}
