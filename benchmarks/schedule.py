"""Can a simulator of Spark's schedule predict how long an audit takes on more data, more cores, a cluster?

The simulator is fitted to three kinds of audits: of 1 and 2 GB on one core of Spark; of almost no bytes,
which have only fixed costs, for each way to run Spark; and of 1 GB on one and on two threads, without Spark.
It then predicts runs that it was not fitted to: 4 and 8 GB on one core, on two cores and on a standalone
cluster of two workers; and 4 GB that are not cached, on one core and on two. Each run is measured five times
in new processes. A figure is 1 minus the prediction's error relative to the median: 0.85 is an error of 15 %.

How fast the disk is differs from minute to minute on a virtual machine, and no simulator can know it. So
plain readers of the same files take turns with the audits that are not cached. What is fitted is one ratio:
how many seconds longer an audit takes if its files are not cached, divided by the seconds of a plain reader.

--petabyte prints what the simulator says about 1 PB on 1,000 disks, with the costs of an earlier run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.audit import seconds_of_audit
from benchmarks.load_unclean import warm
from benchmarks.rounds import Rounds
from benchmarks.schedule_model import Costs, Fleet, Unit, simulate
from benchmarks.schedule_petabyte import petabyte
from benchmarks.schedule_runs import (
    MANY_PARTITIONS,
    PARTITIONS_IN_A_DIRECTORY,
    ROOT,
    Data,
    PlainRates,
    Target,
    build,
    forget,
    measure,
    medians,
    per_pack_costs,
    plain_rate,
)
from tests.spark.cluster import Cluster

FLOOR = 0.85
TURNS = 5
FIT_TURNS = 3  # each with several audits in one session
CHECKED_GB, COLD_GB = (4, 8), 4
SEGMENTS_IN_A_PARTITION = 2
COSTS_FILE = ROOT / "docs" / "benchmarks" / "schedule-costs.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What was fitted: the costs on each Spark by its name, and what is the same on all of them."""

    costs: dict[str, Costs]
    disk_share: float  # of the seconds of a plain reader: how much longer an audit takes that is not cached
    plain_rate: float  # bytes a second of that reader when the share was fitted
    crowding: float
    result_size: float  # the pickled result of one unit


def stages(data_size: int, directories_count: int) -> list[list[Unit]]:
    """The units of an audit: it lists each partition, then reads each segment."""
    partitions = directories_count * PARTITIONS_IN_A_DIRECTORY
    segments = partitions * SEGMENTS_IN_A_PARTITION
    return [[Unit(0)] * partitions, [Unit(data_size * directories_count // segments)] * segments]


def predict(
    fit: Fit, target: Target, data_size: int, directories_count: int, disk: PlainRates | None
) -> float:
    """The seconds of one run, with the start of its session; without a disk, all bytes are cached."""
    costs = fit.costs[target.name]
    fleet = Fleet(
        cores=target.cores,
        cores_per_host=target.cores,  # all of them are on this machine
        crowding=fit.crowding if target.cores > 1 else 1.0,
    )
    if disk is not None:
        # A core waits for the disk and then works, so only its work slows down when other cores are busy.
        seconds_per_byte = fleet.crowding / costs.core_rate + fit.disk_share / disk.one
        costs = replace(costs, core_rate=1 / seconds_per_byte)
        fleet = replace(fleet, crowding=1.0, disk_rate=disk.together / fit.disk_share)
    return simulate(stages(data_size, directories_count), fleet, costs).seconds


def fixed_costs(probe: dict[str, float], one_core: dict[str, float], cores: int) -> Costs:
    """What an audit costs apart from its bytes, from the medians of a probe on a Spark of these cores.

    Costs of a pack and of a unit come from the probe on one core, where all of them are in a row. What the
    simulator knows already is taken off, so that nothing is counted twice.
    """
    by_pack = per_pack_costs(one_core)
    costs = Costs(core_rate=math.inf, task_s=by_pack["task_s"], carried_s=by_pack["carried_s"])
    tiny, many = empty_stages(1), empty_stages(MANY_PARTITIONS)
    more = sum(map(len, many)) - sum(map(len, tiny))
    inside = _inside(one_core, "many") - _inside(one_core, "tiny")
    one = Fleet(cores=1)
    known_s = simulate(many, one, costs).seconds - simulate(tiny, one, costs).seconds
    driver_s = one_core["many_driver_s"] - one_core["tiny_driver_s"]
    costs = replace(costs, unit_s=max(0.0, (inside - known_s) / more))
    job_s = (_inside(probe, "tiny") - simulate(tiny, Fleet(cores=cores), costs).seconds) / len(tiny)
    return replace(
        costs,
        session_s=probe["session_s"],
        worker_s=max(0.0, probe["first_s"] - probe["tiny_s"]),
        job_s=max(0.0, job_s),
        driver_unit_s=max(0.0, driver_s / more),
    )


def empty_stages(partitions: int) -> list[list[Unit]]:
    """The units of an audit of almost no bytes."""
    return [[Unit(0)] * partitions, [Unit(0)] * partitions * SEGMENTS_IN_A_PARTITION]


def _inside(probe: Mapping[str, float], name: str) -> float:
    """The seconds that an audit has waited for its engine."""
    return probe[f"{name}_s"] - probe[f"{name}_driver_s"]


def rate(small_s: float, large_s: float, small: int, large: int) -> float:
    """The bytes a second by which the larger run takes longer; it may not be faster than 100 GB/s."""
    return (large - small) / max(large_s - small_s, (large - small) / 100e9)


class Runs:
    """Measures on all targets, and keeps what was measured."""

    def __init__(self, data: Data, turns: int) -> None:
        self.data, self._turns = data, turns

    def probe(self, targets: Sequence[Target]) -> dict[str, dict[str, float]]:
        """What Spark costs on each target without data, by its name.

        The targets take turns, because a machine is slower in one minute than in the next. The first turn is
        not counted: Spark's jars are then read from the disk.
        """
        return self._fitted(targets, "probe", [self.data.tiny, self.data.many], uncounted=1)

    def fit(self, target: Target) -> dict[str, float]:
        return self._fitted([target], "fit", self.data.directories[:2], uncounted=0)[target.name]

    def _fitted(
        self, targets: Sequence[Target], action: str, paths: Sequence[Path], *, uncounted: int
    ) -> dict[str, dict[str, float]]:
        turns = min(self._turns, FIT_TURNS)
        measured: dict[str, list[dict[str, float]]] = {target.name: [] for target in targets}
        for _ in range(uncounted + turns):
            for target in targets:
                measured[target.name].append(measure(target, action, paths, before=lambda: None))
        found = {name: medians(runs[uncounted:]) for name, runs in measured.items()}
        for name, values in found.items():
            words = ", ".join(f"{field} {value:.4g}" for field, value in values.items())
            print(f"{action} on {name}: {words}", flush=True)
        return found

    def audit(self, target: Target, gigabytes: int) -> dict[str, float]:
        paths, logs = self.data.directories[:gigabytes], self.data.logs(gigabytes)
        return self._print(
            target,
            gigabytes,
            [measure(target, "audit", paths, before=lambda: warm(logs)) for _ in range(self._turns)],
        )

    def audit_not_cached(self, target: Target, gigabytes: int) -> tuple[dict[str, float], PlainRates]:
        """The audit, and what plain readers got from the disk in the same minutes.

        The first turn of both is not counted: what lies below a virtual disk may cache, too, and it then
        has the files for all that come later.
        """
        paths, logs = self.data.directories[:gigabytes], self.data.logs(gigabytes)
        turns = []
        for _ in range(1 + self._turns):
            plain = {"one": plain_rate(logs, 1), "together": plain_rate(logs, target.cores)}
            turns.append(plain | measure(target, "audit", paths, before=lambda: forget(logs)))
        found = self._print(target, gigabytes, turns[1:])
        rates = PlainRates(one=found["one"], together=found["together"])
        print(
            f"  not cached; a plain reader got {rates.one / 1e6:,.0f} MB/s in turns with it, "
            f"{target.cores} together {rates.together / 1e6:,.0f} MB/s",
            flush=True,
        )
        return found, rates

    def _print(self, target: Target, gigabytes: int, runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
        found = medians(runs)
        print(
            f"{gigabytes} x {self.data.size / 1e9:.2f} GB on {target.name}: "
            f"{found['seconds']:.2f} s after {found['session_s']:.2f} s for the session",
            flush=True,
        )
        return found

    def of_threads(self, threads: int) -> float:
        warm(self.data.logs(1))
        seconds_of_audit(self.data.directories[0], threads)  # loads the kernels
        return median(seconds_of_audit(self.data.directories[0], threads) for _ in range(self._turns))


def fit_costs(runs: Runs, targets: Sequence[Target]) -> Fit:
    """Everything that is measured here is what the simulator knows; the checked runs come after it."""
    one_core, data = targets[0], runs.data
    probes = runs.probe(targets)
    fixed = {
        target.name: fixed_costs(probes[target.name], probes[one_core.name], target.cores)
        for target in targets
    }
    fitted = runs.fit(one_core)
    known, first_operation_s = known_costs(fixed[one_core.name], fitted, data.size)
    threads_s = [runs.of_threads(count) for count in (1, 2)]
    units = sum(map(len, stages(data.size, 1)))
    return Fit(
        costs={
            name: replace(each, core_rate=known.core_rate, operation_s=first_operation_s)
            for name, each in fixed.items()
        },
        disk_share=disk_share(fitted),
        plain_rate=3 * data.size / (fitted["one_plain_s"] + fitted["both_plain_s"]),
        crowding=max(1.0, 2 * threads_s[1] / threads_s[0]),
        result_size=fitted["result_size"] / units,
    )


def disk_share(fitted: Mapping[str, float]) -> float:
    """How much longer an audit takes if its files are not cached, for each second of a plain reader.

    Everything else costs the same in both audits, so it cancels out.
    """
    longer = sum(fitted[f"{name}_cold_s"] - fitted[f"{name}_s"] for name in ("one", "both"))
    return max(0.01, longer / sum(fitted[f"{name}_plain_s"] for name in ("one", "both")))


def known_costs(fixed: Costs, fitted: Mapping[str, float], data_size: int) -> tuple[Costs, float]:
    """The costs with the rate of a core; and what the first audit of a session costs in addition.

    That is done once in every run on every Spark: workers load the compiled code for the first large file.
    """
    core_rate = _rate_of(fixed, fitted["one_s"], fitted["both_s"], data_size)
    costs = replace(fixed, core_rate=core_rate)
    known = simulate(stages(data_size, 1), Fleet(cores=1), replace(costs, session_s=0.0))
    return costs, fitted["first_s"] - known.seconds


def _rate_of(fixed: Costs, one_s: float, both_s: float, data_size: int) -> float:
    """The bytes a second of a core, from audits of one directory and of two."""
    units = len(stages(data_size, 2)[0]) // 2 + len(stages(data_size, 2)[1]) // 2
    each = fixed.unit_s + fixed.driver_unit_s
    return rate(one_s, both_s - each * units, data_size, 2 * data_size)


@contextmanager
def started(work: Path) -> Iterator[list[Target]]:
    """One core, two cores, and a standalone cluster of a master and two workers with a core each."""
    environ = dict(os.environ)
    with Cluster(work / "cluster") as cluster:
        yield [
            Target(name="one_core", master="local[1]", environ=environ, cores=1),
            Target(name="two_cores", master="local[2]", environ=environ, cores=2),
            Target(name="cluster", master=cluster.master, environ=cluster.environ, cores=2),
        ]


def check(rounds: Rounds, runs: Runs, fit: Fit, targets: Sequence[Target]) -> None:
    """Compare the prediction of each run with its measurement; nothing of a run is fitted."""

    def state(figure: str, predicted: float, found: Mapping[str, float]) -> None:
        measured = found["session_s"] + found["seconds"]
        print(f"{figure}: predicted {predicted:.2f} s, measured {measured:.2f} s", flush=True)
        rounds.state(figure, max(0.0, 1 - abs(predicted / measured - 1)), FLOOR)

    size = runs.data.size
    for target in targets:
        for count in CHECKED_GB:
            predicted = predict(fit, target, size, count, None)
            state(f"audit_{count}gb_{target.name}", predicted, runs.audit(target, count))
    for target in targets[:2]:
        found, disk = runs.audit_not_cached(target, COLD_GB)
        predicted = predict(fit, target, size, COLD_GB, disk)
        state(f"audit_{COLD_GB}gb_{target.name}_cold", predicted, found)


def write_costs(path: Path, fit: Fit) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(fit), indent=1) + "\n", "utf-8")


def read_costs(path: Path) -> Fit:
    found = json.loads(path.read_text("utf-8"))
    return Fit(**{**found, "costs": {name: Costs(**each) for name, each in found["costs"].items()}})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--petabyte", action="store_true", help="1 PB on 1,000 disks, from earlier costs")
    parser.add_argument(
        "--costs", type=Path, default=COSTS_FILE, help="where a run keeps the costs that it fitted"
    )
    rounds = Rounds(__doc__ or "", parser)
    options = rounds.options
    if options.petabyte:
        if not options.costs.exists():
            sys.exit(f"{options.costs} is missing: run `python -m benchmarks.schedule` on a quiet machine.")
        fit = read_costs(options.costs)
        petabyte(fit.costs["cluster"], fit.crowding, fit.result_size)
        return
    work = Path(tempfile.mkdtemp(prefix="stratalog-schedule-"))
    try:
        with started(work) as targets:
            runs = Runs(build(work, rounds.scale), 1 if options.smoke else TURNS)
            fit = fit_costs(runs, targets)
            print_fit(fit)
            check(rounds, runs, fit, targets)
    finally:
        shutil.rmtree(work)
    if not options.smoke or options.costs != COSTS_FILE:
        write_costs(options.costs, fit)
    rounds.end()


def print_fit(fit: Fit) -> None:
    for name, costs in fit.costs.items():
        words = ", ".join(f"{field} {value:.4g}" for field, value in asdict(costs).items())
        print(f"costs on {name}: {words}")
    print(
        f"not cached: {fit.disk_share:.2f} of the time of a plain reader, which got "
        f"{fit.plain_rate / 1e6:,.0f} MB/s; crowding {fit.crowding:.2f}; "
        f"{fit.result_size:,.0f} bytes of result for a unit",
        flush=True,
    )


if __name__ == "__main__":
    main()
