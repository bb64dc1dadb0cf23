"""The interface between an operation and its engine: a pure function of a task and a `DiskReader`.

An operation plans tasks, an engine maps a function over them, and the operation draws its conclusions from
the outcomes, which arrive as tasks finish. An engine holds only a few outcomes that the operation has not
taken yet, so an operation that takes them slowly makes the readers wait. A StratalogError of a task becomes
its outcome, so that it fails only one directory; any other exception is a bug and is raised. `ThreadEngine`
(`threads.py`) runs in this process, `SparkEngine` on Spark. For Spark, the function must be importable, and
each task and result must be small and picklable.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from stratalog.engine.progress import OnProgress
from stratalog.errors import StratalogError
from stratalog.files.reading import DiskReader

Task = TypeVar("Task")
Result = TypeVar("Result")
TaskFunction = Callable[[DiskReader, Task], Result]


@dataclass(frozen=True, slots=True)
class TaskOutcome(Generic[Task, Result]):
    """The outcome of a task; `number` is the task's index in the given list."""

    number: int
    task: Task
    value: Result | StratalogError

    @property
    def error(self) -> StratalogError | None:
        """Why the task failed; None if it did not."""
        return self.value if isinstance(self.value, StratalogError) else None

    @property
    def result(self) -> Result:
        """What the function returned; raises the task's error if it failed."""
        if isinstance(self.value, StratalogError):
            raise self.value
        return self.value


class Engine(Protocol):
    """Runs a function over tasks, in any order and on any machine."""

    def run(
        self,
        function: TaskFunction[Task, Result],
        tasks: Sequence[Task],
        *,
        sizes: Sequence[int] | None = None,
        paths: Sequence[str] | None = None,
        on_progress: OnProgress | None = None,
        is_wanted: Callable[[int], bool] | None = None,
    ) -> Generator[TaskOutcome[Task, Result], None, None]:
        """The outcomes of the tasks, as they finish. Closing the iterator ends the run.

        `sizes` says how many bytes each task reads, `paths` from which file or directory. With paths, the
        tasks of one device start in their order, on as many readers as the device can use. Without paths the
        largest start first, on all cores. `on_progress` may be called from another thread. `is_wanted` is
        called with a task's number before the engine starts it; a task that is no longer wanted has no
        outcome.
        """
        ...


def results_in_order(outcomes: Generator[TaskOutcome[Task, Result], None, None]) -> list[Result]:
    """The results in the order of the tasks. The first error ends the run and is raised."""
    results: dict[int, Result] = {}
    with closing(outcomes):
        for outcome in outcomes:
            results[outcome.number] = outcome.result
    return [results[number] for number in range(len(results))]


def task_sizes(tasks_count: int, sizes: Sequence[int] | None) -> list[int]:
    """One size for each task; 1 if no sizes are given."""
    if sizes is None:
        return [1] * tasks_count
    if len(sizes) != tasks_count:
        raise ValueError(f"{len(sizes)} sizes for {tasks_count} tasks")
    return list(sizes)


def in_turns(groups: Sequence[Hashable]) -> list[int]:
    """The numbers of the tasks, taken from each group in turn; the tasks of one group stay in their order."""
    turns: dict[Hashable, int] = {}
    turn_of = []
    for group in groups:
        turn_of.append(turns.get(group, 0))
        turns[group] = turn_of[-1] + 1
    return sorted(range(len(groups)), key=turn_of.__getitem__)


def pack(sizes: Sequence[int], packs_count: int) -> list[list[int]]:
    """The numbers of the tasks in at most `packs_count` packs of about equal size, largest pack first.

    The largest remaining task goes to the smallest pack. No pack is empty.
    """
    packs: list[list[int]] = [[] for _ in range(min(packs_count, len(sizes)))]
    smallest = [(0, number) for number in range(len(packs))]
    for index in largest_first(sizes):
        # A task of size 0 counts as 1 byte: otherwise all such tasks would go to the same pack.
        size, number = heapq.heappop(smallest)
        packs[number].append(index)
        heapq.heappush(smallest, (size + max(1, sizes[index]), number))
    return sorted(packs, key=lambda members: -sum(sizes[index] for index in members))


def largest_first(sizes: Sequence[int]) -> list[int]:
    """The numbers of the tasks, largest task first."""
    return sorted(range(len(sizes)), key=lambda index: -sizes[index])
