"""The seam between a job and what runs it: map a pure function over tasks, give back small results.

A job plans tasks, an engine maps the job's function over them, and the job draws the conclusions. The
function must be importable and each task and result small and picklable, since the engine may be Spark
on other machines. `ThreadEngine` runs here: the kernels release the GIL, so threads use every core.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a map is: tasks finished and their weight, where an engine can tell."""

    tasks_done: int
    tasks_count: int
    weight_done: int
    weight_total: int


OnProgress = Callable[[Progress], None]


class Engine(Protocol):
    """Maps a function over tasks, in any order and on any machine."""

    def map(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        *,
        weights: Sequence[int] | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Result]:
        """The results in the order of the tasks.

        `weights` say what each task costs, in bytes mostly: the largest start first. `on_progress` may
        be called from another thread. The first error of a task ends the map and is raised here.
        """
        ...


class ThreadEngine:
    """Maps in this process, with one thread per core unless told otherwise."""

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers or os.cpu_count() or 1

    def map(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        *,
        weights: Sequence[int] | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Result]:
        costs = task_weights(len(tasks), weights)
        largest_first = sorted(range(len(tasks)), key=lambda index: -costs[index])
        results: dict[int, Result] = {}
        weight_done = 0
        with ThreadPoolExecutor(self._workers, thread_name_prefix="stratalog") as pool:
            running = {pool.submit(function, tasks[index]): index for index in largest_first}
            try:
                for future in as_completed(running):
                    index = running[future]
                    results[index] = future.result()
                    weight_done += costs[index]
                    if on_progress:
                        on_progress(
                            Progress(
                                tasks_done=len(results),
                                tasks_count=len(tasks),
                                weight_done=weight_done,
                                weight_total=sum(costs),
                            )
                        )
            finally:
                # After an error or Ctrl-C nothing waits for tasks that have not begun.
                pool.shutdown(wait=False, cancel_futures=True)
        return [results[index] for index in range(len(tasks))]


def task_weights(tasks_count: int, weights: Sequence[int] | None) -> list[int]:
    """One weight for each task; 1 where none are given."""
    if weights is None:
        return [1] * tasks_count
    if len(weights) != tasks_count:
        raise ValueError(f"{len(weights)} weights for {tasks_count} tasks")
    return list(weights)


def pack(weights: Sequence[int], packs_count: int) -> list[list[int]]:
    """The numbers of the tasks in at most `packs_count` packs of about equal weight, heaviest pack first.

    The largest remaining task goes to the lightest pack. No pack is empty.
    """
    packs: list[list[int]] = [[] for _ in range(min(packs_count, len(weights)))]
    lightest = [(0, number) for number in range(len(packs))]
    for index in sorted(range(len(weights)), key=lambda index: -weights[index]):
        # A task without weight still costs something: without this all of them would share a pack.
        weight, number = heapq.heappop(lightest)
        packs[number].append(index)
        heapq.heappush(lightest, (weight + max(1, weights[index]), number))
    return sorted(packs, key=lambda members: -sum(weights[index] for index in members))
