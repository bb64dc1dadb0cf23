"""What the simulator says about an audit of 1 PB on 1,000 disks: bottleneck, cores, cost, what fails first.

All jobs of a stage are alike, so only a few are simulated, and the others are assumed to take as long.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks.schedule_model import MOST_ATTEMPTS, Costs, Fleet, Luck, Unit, simulate
from stratalog.engine.engine import pack
from stratalog.spark.engine import PACKS_PER_CORE, TASKS_IN_A_JOB

DISKS = 1000
DISK_SIZE, SEGMENT_SIZE = 10**12, 10**9  # a segment has Kafka's default size, about a GB
PARTITIONS_IN_A_DISK = 200
# What is assumed, and not measured here.
DISK_RATE = 200e6  # a hard disk that reads one file after the other
HOST_CORES, HOST_RATE = 16, 1.25e9 * 0.9  # with a network of 10 Gbit/s
LUCK = Luck(slow_hosts=0.02, slow_disks=0.01, slow_factor=3.0, failing=0.001)
CORE_COUNTS = (16, 64, 256, 1024, 4096, 16384)
SIMULATED_JOBS = 3
# Doubling the cores pays if the run then takes at most this share of its time.
PAYS = 0.75
LARGEST_RESULT = 1 << 30  # Spark's spark.driver.maxResultSize
DRIVER_MEMORY = 16 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The seconds of a whole run, and its cost in core hours."""

    cores: int
    seconds: float

    @property
    def core_hours(self) -> float:
        return self.cores * self.seconds / 3600


def in_order(number: int) -> Unit:
    """The segments directory by directory, as an operation lists them."""
    return Unit(SEGMENT_SIZE, number // (DISK_SIZE // SEGMENT_SIZE))


def in_turns(number: int) -> Unit:
    """The segments in turns from all disks, as the engine takes them."""
    return Unit(SEGMENT_SIZE, number % DISKS)


def estimate(
    costs: Costs,
    cores: int,
    unit: Callable[[int], Unit],
    *,
    crowding: float = 1.0,
    disk_rate: float = DISK_RATE,
    luck: Luck = LUCK,
) -> Estimate:
    """A run on so many cores, from a few jobs of each of its two stages."""
    fleet = Fleet(
        cores=cores,
        cores_per_host=HOST_CORES,
        crowding=crowding,
        disk_rate=disk_rate,
        host_rate=HOST_RATE,
    )
    segments_count = DISKS * DISK_SIZE // SEGMENT_SIZE
    count = SIMULATED_JOBS * TASKS_IN_A_JOB
    listing = _stage([Unit(0)] * count, DISKS * PARTITIONS_IN_A_DISK, fleet, costs, luck)
    reading = _stage(
        [unit(number) for number in range(count)], segments_count, fleet, replace(costs, worker_s=0.0), luck
    )
    return Estimate(cores=cores, seconds=costs.session_s + costs.operation_s + listing + reading)


def _stage(units: list[Unit], units_count: int, fleet: Fleet, costs: Costs, luck: Luck) -> float:
    """The seconds of a stage of `units_count` units, of which these are the first."""
    # Retries are simulated. Packs that use up all attempts are not; `limits` estimates how many do.
    found = simulate([units], fleet, replace(costs, session_s=0.0, operation_s=0.0), luck)
    jobs_count = math.ceil(units_count / TASKS_IN_A_JOB)
    first, later = found.job_seconds[0], found.job_seconds[1:]
    return first + (jobs_count - 1) * sum(later) / len(later) + units_count * costs.driver_unit_s


def faster(costs: Costs, cores: int, unit: Callable[[int], Unit], crowding: float) -> dict[str, float]:
    """Which share of its time a run takes if one thing is twice as fast. The smallest is the bottleneck's."""
    now = estimate(costs, cores, unit, crowding=crowding).seconds
    without_driver = replace(costs, driver_unit_s=costs.driver_unit_s / 2, job_s=costs.job_s / 2)
    by_core = replace(costs, core_rate=costs.core_rate * 2, unit_s=costs.unit_s / 2)
    by_pack = replace(costs, task_s=costs.task_s / 2, carried_s=costs.carried_s / 2)
    tried = {
        "the disks": estimate(costs, cores, unit, crowding=crowding, disk_rate=2 * DISK_RATE),
        "the cores": estimate(by_core, cores, unit, crowding=crowding),
        "the driver": estimate(without_driver, cores, unit, crowding=crowding),
        "the start of Spark's tasks": estimate(by_pack, cores, unit, crowding=crowding),
        "slow hosts, slow disks and retries": estimate(costs, cores, unit, crowding=crowding, luck=Luck()),
    }
    return {name: found.seconds / now for name, found in tried.items()}


def cores_that_pay(estimates: list[Estimate]) -> int:
    """The most cores that pay: up to them, each doubling cuts the run to at most `PAYS` of its time."""
    best = estimates[0]
    for found in estimates[1:]:
        doublings = math.log2(found.cores / best.cores)
        if found.seconds > best.seconds * PAYS**doublings:
            break
        best = found
    return best.cores


def limits(result_size: float, cores: int) -> list[tuple[float, str]]:
    """(How many times larger than the need a limit is, a sentence about it), the tightest limit first."""
    segments_count = DISKS * DISK_SIZE // SEGMENT_SIZE
    of_job, of_run = result_size * TASKS_IN_A_JOB, result_size * segments_count
    packs_count = segments_count // TASKS_IN_A_JOB * len(pack([1] * TASKS_IN_A_JOB, cores * PACKS_PER_CORE))
    ends = packs_count * LUCK.failing**MOST_ATTEMPTS
    return sorted(
        [
            (
                DRIVER_MEMORY / of_run,
                f"the driver keeps {of_run / 1e9:.1f} GB of pickled results, if it has 16 GiB of memory",
            ),
            (
                LARGEST_RESULT / of_job,
                f"a job returns {of_job / 1e6:.1f} MB, and spark.driver.maxResultSize is 1 GiB",
            ),
            (
                1 / ends,
                f"{packs_count:,} Spark tasks, each attempt of which fails once in {1 / LUCK.failing:,.0f}: "
                f"{ends:.1e} use up their {MOST_ATTEMPTS} attempts",
            ),
        ]
    )


def petabyte(costs: Costs, crowding: float, result_size: float) -> None:
    """Print what the simulator says."""
    print(
        f"1 PB on {DISKS:,} disks. Assumed: {DISK_RATE / 1e6:.0f} MB/s a disk, hosts of {HOST_CORES} cores "
        f"that read {HOST_RATE / 1e9:.2f} GB/s, {LUCK.slow_hosts:.0%} of hosts and "
        f"{LUCK.slow_disks:.0%} of disks {LUCK.slow_factor:.0f} times slower, {LUCK.failing:.1%} of "
        f"attempts fail. Fitted: {costs.core_rate / 1e6:,.0f} MB/s on a core, crowding {crowding:.2f}."
    )
    for words, unit in (
        ("directory by directory", in_order),
        ("all disks in turns, as the engine does", in_turns),
    ):
        print(f"\nSegments {words}:")
        found = [estimate(costs, cores, unit, crowding=crowding) for cores in CORE_COUNTS]
        for each in found:
            print(
                f"  {each.cores:6,} cores: {each.seconds / 3600:7.1f} h, {each.core_hours:9,.0f} core hours, "
                f"disks {DISKS * DISK_SIZE / (each.seconds * DISKS * DISK_RATE):.1%} busy"
            )
        paying = cores_that_pay(found)
        print(f"  up to {paying:,} cores ({paying // HOST_CORES:,} executors of {HOST_CORES}) more cores pay")
        parts = faster(costs, paying, unit, crowding)
        name = min(parts, key=lambda each: parts[each])
        print(f"  the bottleneck is {name}: if twice as fast, the run takes {parts[name]:.0%} of its time")
    print("\nWhat fails first, the tightest limit first:")
    for room, words in limits(result_size, CORE_COUNTS[-2]):
        print(f"  {words} (the limit is {room:,.1f} times that)" if room < 1e6 else f"  {words}")
