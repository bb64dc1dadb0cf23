"""Results come in the order of the tasks, from threads, and never too many at once."""

from __future__ import annotations

import gc
import random
import threading
import time
from collections.abc import Generator, Iterator

import pytest

from stratalog.scanning.in_order import cores, in_order
from tests.waiting import PATIENCE_S

THREADS = [1, 2, 5]


def run(
    tasks: Iterator[int], read: object, threads: int, *, budget: int = 4
) -> Generator[tuple[int, int], None, None]:
    return in_order(tasks, read, threads=threads, size_of=lambda _: 1, budget=budget)  # type: ignore[arg-type]


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("seed", range(3))
def test_items_come_in_the_order_of_their_tasks(threads: int, seed: int) -> None:
    chance = random.Random(seed)
    counts = [chance.choice([0, 1, 2, 30]) for _ in range(60)]

    def read(task: int) -> Generator[tuple[int, int], None, None]:
        for item in range(counts[task]):
            if item % 7 == 3:
                time.sleep(0.0002 * (task % 4))
            yield task, item

    found = list(run(iter(range(60)), read, threads))

    assert found == [(task, item) for task in range(60) for item in range(counts[task])]


@pytest.mark.parametrize("threads", THREADS)
def test_no_more_is_held_than_two_budgets_and_an_item_of_each_thread(threads: int) -> None:
    made, lock = 0, threading.Lock()

    def read(task: int) -> Generator[tuple[int, int], None, None]:
        nonlocal made
        for item in range(50):
            with lock:
                made += 1
            yield task, item

    taken = most = 0
    for _ in run(iter(range(20)), read, threads, budget=4):
        taken += 1
        if taken % 10 == 0:
            time.sleep(0.001)  # so that the threads get as far as they may
        most = max(most, made - taken)

    assert taken == 1000
    assert most <= 2 * 4 + threads


@pytest.mark.parametrize("threads", THREADS)
def test_an_error_comes_after_all_that_is_before_it(threads: int) -> None:
    def read(task: int) -> Generator[tuple[int, int], None, None]:
        yield task, 0
        if task == 3:
            raise ValueError("three")
        yield task, 1

    found: list[tuple[int, int]] = []
    with pytest.raises(ValueError, match="three"):
        found.extend(run(iter(range(100)), read, threads))

    assert found == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0)]


@pytest.mark.parametrize("threads", THREADS)
def test_an_error_of_planning_comes_in_its_place(threads: int) -> None:
    def tasks() -> Iterator[int]:
        yield 0
        yield 1
        raise ValueError("no plan")

    def read(task: int) -> Generator[tuple[int, int], None, None]:
        yield task, 0

    found: list[tuple[int, int]] = []
    with pytest.raises(ValueError, match="no plan"):
        found.extend(run(tasks(), read, threads))

    assert found == [(0, 0), (1, 0)]


@pytest.mark.parametrize("threads", THREADS)
def test_closing_early_ends_the_threads_and_closes_what_they_read(threads: int) -> None:
    before, closed = threading.active_count(), []

    def read(task: int) -> Generator[tuple[int, int], None, None]:
        try:
            for item in range(1000):
                yield task, item
        finally:
            closed.append(task)

    items = run(iter(range(1000)), read, threads)
    assert next(items) == (0, 0)
    items.close()

    assert threading.active_count() == before
    assert closed
    assert len(closed) <= threads


def test_a_generator_that_is_collected_in_one_of_its_threads_ends_them() -> None:
    """As after an exception that a variable still has: the generator is in a cycle of references."""
    dropped, collected = threading.Event(), threading.Event()

    def read(task: int) -> Generator[tuple[int, int], None, None]:
        yield task, 0
        assert dropped.wait(PATIENCE_S)
        gc.collect()
        collected.set()

    class Cycle:
        def __init__(self) -> None:
            self.itself = self
            self.items = run(iter([7]), read, 2)

    before = threading.active_count()
    cycle = Cycle()
    assert next(cycle.items) == (7, 0)
    del cycle
    dropped.set()

    assert collected.wait(PATIENCE_S)
    while threading.active_count() > before:
        time.sleep(0.001)


@pytest.mark.parametrize("threads", THREADS)
def test_nothing_is_begun_until_the_first_item_is_asked_for(threads: int) -> None:
    begun: list[int] = []

    def tasks() -> Iterator[int]:
        begun.append(1)
        yield 1

    def read(task: int) -> Generator[tuple[int, int], None, None]:
        yield task, 0

    items = run(tasks(), read, threads)
    assert begun == []
    assert list(items) == [(1, 0)]


def test_threads_work_at_the_same_time() -> None:
    meet = threading.Barrier(2, timeout=PATIENCE_S)

    def read(task: int) -> Generator[tuple[int, int], None, None]:
        meet.wait()
        yield task, 0

    assert list(run(iter(range(2)), read, 2)) == [(0, 0), (1, 0)]


def test_there_is_a_core() -> None:
    assert cores() >= 1
