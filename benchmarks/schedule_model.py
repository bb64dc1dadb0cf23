"""A simulator of how `SparkEngine` schedules an operation: disks, hosts, cores, packs of tasks, retries.

It follows `spark/engine.py`. The tasks of a stage become Spark jobs of at most `TASKS_IN_A_JOB`, one after
the other. The engine's own `pack` packs the tasks of a job, and a free core takes the next pack. Each pack
costs a fixed time, and then reads its units one by one. A unit is read as fast as its core allows, or at an
equal share of its disk, whichever is slower. A failed pack starts again, at most `MOST_ATTEMPTS` times.

Time only passes from event to event, and chance comes from a seed: the same input gives the same schedule.

Three things are not simulated: speculation, which the session turns off; the network, except as a limit of
each core; and that other readers can use the share of a disk that a slow reader leaves unused.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stratalog.engine.engine import pack
from stratalog.spark.engine import PACKS_PER_CORE, TASKS_IN_A_JOB

MOST_ATTEMPTS = 4  # Spark's spark.task.maxFailures


class Unit(NamedTuple):
    """What one task of ours reads: bytes of a file on one disk."""

    size: int
    disk: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What things cost, in seconds, except for `core_rate`: the bytes a second that one core processes.

    `session_s` is the start of a session, `worker_s` that of a Python worker on each core. A Spark job costs
    `job_s`. A pack costs `task_s`, and `carried_s` for every unit of its job, because the list of all units
    is sent with each pack. A unit costs `unit_s` on its core and `driver_unit_s` in the driver. `operation_s`
    is what the driver does once.
    """

    core_rate: float
    session_s: float = 0.0
    operation_s: float = 0.0
    worker_s: float = 0.0
    job_s: float = 0.0
    task_s: float = 0.0
    carried_s: float = 0.0
    unit_s: float = 0.0
    driver_unit_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Executors' cores, and the disks that they read. `disk_rate` is infinite if all bytes are cached.

    `crowding` is how much slower a core is when all cores of its host are busy. `host_rate` is what a host
    can read in total, by network or bus; its cores share it evenly.
    """

    cores: int
    cores_per_host: int = 1
    crowding: float = 1.0
    disk_rate: float = math.inf
    host_rate: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Luck:
    """Which share of the hosts and disks is slow, by which factor, and which share of all attempts fails."""

    slow_hosts: float = 0.0
    slow_disks: float = 0.0
    slow_factor: float = 1.0
    failing: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What a simulated run took. `job_seconds` has an entry for each Spark job, without the driver's part.

    `has_failed` says that a pack has used up its attempts: Spark ends the job then, and the run with it.
    """

    seconds: float
    job_seconds: tuple[float, ...]
    attempts: int
    busy_core_s: float
    has_failed: bool


def simulate(
    stages: Sequence[Sequence[Unit]], fleet: Fleet, costs: Costs, luck: Luck | None = None
) -> Schedule:
    """Run the stages one after the other, as an operation gives them to its engine.

    An audit has two: it lists partitions, then it reads segments.
    """
    run = _Run(fleet, costs, luck or Luck())
    now = costs.session_s + costs.operation_s
    job_seconds = []
    for units in stages:
        for first in range(0, len(units), TASKS_IN_A_JOB):
            of_job = units[first : first + TASKS_IN_A_JOB]
            began, now = now, run.job(now, of_job)
            job_seconds.append(now - began)
            if run.has_failed:
                break
            now += costs.driver_unit_s * len(of_job)
        if run.has_failed:
            break
    return Schedule(
        seconds=now,
        job_seconds=tuple(job_seconds),
        attempts=run.attempts,
        busy_core_s=run.busy_core_s,
        has_failed=run.has_failed,
    )


class _Attempt:
    """A pack on a core. `units` are still to be read: in a failing attempt, those up to the failure."""

    def __init__(self, members: list[Unit], number: int, core: int, began: float) -> None:
        self.members, self.number, self.core, self.began = members, number, core, began
        self.units = deque(members)
        self.fails = False

    def fail_after(self, size: float) -> None:
        """Let the attempt fail after this many bytes."""
        self.fails, self.units = True, deque()
        for unit in self.members:
            self.units.append(unit._replace(size=min(unit.size, math.ceil(size))))
            size -= unit.size
            if size <= 0:
                return


class _Run:
    def __init__(self, fleet: Fleet, costs: Costs, luck: Luck) -> None:
        self._fleet, self._costs, self._luck = fleet, costs, luck
        self._random = random.Random(luck.seed)
        rate = min(costs.core_rate / fleet.crowding, fleet.host_rate / fleet.cores_per_host)
        slow = [
            self._random.random() < luck.slow_hosts for _ in range(-(-fleet.cores // fleet.cores_per_host))
        ]
        self._limits = [
            rate / (luck.slow_factor if slow[core // fleet.cores_per_host] else 1.0)
            for core in range(fleet.cores)
        ]
        self._disks: dict[int, _Disk] = {}
        self._started: set[int] = set()
        self.attempts, self.busy_core_s, self.has_failed = 0, 0.0, False

    def job(self, now: float, units: Sequence[Unit]) -> float:
        """Run one Spark job from `now` on; returns when it ended."""
        now += self._costs.job_s
        packs = pack([unit.size for unit in units], max(1, self._fleet.cores * PACKS_PER_CORE))
        waiting = deque(([units[index] for index in members], 1) for members in packs)
        free = deque(range(self._fleet.cores))
        # What happens next: a pack's fixed part ends, or the next reader of a disk is done. An event has the
        # version of its disk. If that version has changed, so have the readers, and the event is outdated.
        events: list[tuple[float, int, _Attempt | _Disk, int]] = []
        counter = 0

        def push(time: float, what: _Attempt | _Disk, version: int = 0) -> None:
            nonlocal counter
            counter += 1
            heapq.heappush(events, (time, counter, what, version))

        def go_on(attempt: _Attempt) -> None:
            """Read the next unit, or end the attempt."""
            while attempt.units:
                unit = attempt.units.popleft()
                if unit.size:
                    disk = self._disk(unit.disk)
                    disk.add(now, attempt, unit.size, self._limits[attempt.core])
                    push(disk.next_end, disk, disk.version)
                    return
            self.busy_core_s += now - attempt.began
            free.append(attempt.core)
            if attempt.fails:
                self.has_failed |= attempt.number == MOST_ATTEMPTS
                waiting.append((attempt.members, attempt.number + 1))

        while not self.has_failed:
            while waiting and free:
                members, number = waiting.popleft()
                attempt, fixed_s = self._begin(now, members, number, free.popleft(), len(units))
                push(now + fixed_s, attempt)
            if not events:
                break
            now, _, what, version = heapq.heappop(events)
            if isinstance(what, _Attempt):
                go_on(what)
            elif version == what.version:
                attempt = what.pop(now)
                if what.readers:
                    push(what.next_end, what, what.version)
                go_on(attempt)
        return now

    def _begin(
        self, now: float, members: list[Unit], number: int, core: int, units_count: int
    ) -> tuple[_Attempt, float]:
        """The attempt, and the seconds before it reads."""
        costs = self._costs
        self.attempts += 1
        attempt = _Attempt(members, number, core, now)
        if self._luck.failing and self._random.random() < self._luck.failing:
            attempt.fail_after(self._random.random() * sum(unit.size for unit in members))
        fixed_s = costs.task_s + costs.carried_s * units_count + costs.unit_s * len(members)
        if core not in self._started:
            self._started.add(core)
            fixed_s += costs.worker_s
        return attempt, fixed_s

    def _disk(self, number: int) -> _Disk:
        if number not in self._disks:
            is_slow = self._luck.slow_disks and self._random.random() < self._luck.slow_disks
            self._disks[number] = _Disk(self._fleet.disk_rate / (self._luck.slow_factor if is_slow else 1.0))
        return self._disks[number]


class _Lane:
    """Readers of a disk with the same limit. All progress equally, so one sum says how far each has come."""

    def __init__(self) -> None:
        self.done = 0.0
        self.goals: list[tuple[float, int, _Attempt]] = []


class _Disk:
    """A disk that its readers share evenly. `version` grows with each change of its readers."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._lanes: dict[float, _Lane] = {}
        self._now = 0.0
        self.readers = self.version = 0

    def add(self, now: float, attempt: _Attempt, size: int, limit: float) -> None:
        self._advance(now)
        self.readers, self.version = self.readers + 1, self.version + 1
        lane = self._lanes.setdefault(limit, _Lane())
        heapq.heappush(lane.goals, (lane.done + size, self.version, attempt))

    def pop(self, now: float) -> _Attempt:
        """The reader that is done at `now`, the time of `next_end`."""
        lane = self._next()[1]
        self._advance(now)
        self.readers, self.version = self.readers - 1, self.version + 1
        goal, _, attempt = heapq.heappop(lane.goals)
        lane.done = goal
        return attempt

    @property
    def next_end(self) -> float:
        return self._now + self._next()[0]

    def _next(self) -> tuple[float, _Lane]:
        """The seconds until the next reader is done, and its lane."""
        return min(
            (
                (max(0.0, lane.goals[0][0] - lane.done) / self._speed(limit), lane)
                for limit, lane in self._lanes.items()
                if lane.goals
            ),
            key=lambda found: found[0],
        )

    def _advance(self, now: float) -> None:
        for limit, lane in self._lanes.items():
            if lane.goals:
                lane.done += self._speed(limit) * (now - self._now)
        self._now = now

    def _speed(self, limit: float) -> float:
        return min(limit, self._rate / max(1, self.readers))
