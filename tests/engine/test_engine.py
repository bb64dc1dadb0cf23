"""Threads behind the seam, and how tasks are packed."""

from __future__ import annotations

import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.engine.engine import Progress, ThreadEngine, pack
from stratalog.errors import CorruptRecordError
from tests.waiting import PATIENCE_S


def test_results_come_in_the_order_of_the_tasks() -> None:
    results = ThreadEngine(4).map(math.factorial, list(range(30)), weights=list(range(30)))

    assert results == [math.factorial(task) for task in range(30)]


def test_no_tasks_give_no_results() -> None:
    assert ThreadEngine().map(math.factorial, []) == []


def test_the_largest_task_starts_first() -> None:
    started: list[int] = []

    ThreadEngine(1).map(started.append, [0, 1, 2, 3], weights=[5, 30, 1, 8])

    assert started == [1, 3, 0, 2]


def test_tasks_run_side_by_side() -> None:
    both = threading.Barrier(2, timeout=PATIENCE_S)

    assert sorted(ThreadEngine(2).map(lambda _: both.wait(), [0, 1])) == [0, 1]


def test_an_error_is_raised_and_waiting_tasks_are_dropped() -> None:
    started: list[int] = []
    never = threading.Event()

    def fail_first(task: int) -> None:
        started.append(task)
        if task == 0:
            raise CorruptRecordError("planted", position=task)
        never.wait(0.5)

    with pytest.raises(CorruptRecordError, match="planted"):
        ThreadEngine(1).map(fail_first, list(range(1000)))

    assert len(started) < 10


def test_progress_counts_tasks_and_weight() -> None:
    seen: list[Progress] = []

    ThreadEngine(1).map(math.factorial, [1, 2, 3], weights=[1, 20, 300], on_progress=seen.append)

    assert [progress.weight_done for progress in seen] == [300, 320, 321]
    assert [progress.tasks_done for progress in seen] == [1, 2, 3]
    assert {(progress.tasks_count, progress.weight_total) for progress in seen} == {(3, 321)}


def test_a_weight_for_each_task_is_asked_for() -> None:
    with pytest.raises(ValueError, match="2 weights for 3 tasks"):
        ThreadEngine().map(math.factorial, [1, 2, 3], weights=[1, 2])


@given(st.lists(st.integers(0, 10**12)), st.integers(1, 20))
def test_each_task_is_in_one_pack_and_no_pack_is_empty(weights: list[int], packs_count: int) -> None:
    packs = pack(weights, packs_count)

    assert sorted(index for members in packs for index in members) == list(range(len(weights)))
    assert len(packs) == min(packs_count, len(weights))
    assert all(packs)


@given(st.lists(st.integers(1, 10**6), min_size=1), st.integers(1, 8))
def test_the_heaviest_pack_comes_first_and_exceeds_the_mean_by_less_than_a_task(
    weights: list[int], packs_count: int
) -> None:
    totals = [sum(weights[index] for index in members) for members in pack(weights, packs_count)]

    assert totals == sorted(totals, reverse=True)
    assert totals[0] <= sum(weights) / packs_count + max(weights)
