"""The engine of threads keeps the promises of the seam."""

from __future__ import annotations

import math
import threading

import pytest

from stratalog.engine.engine import TaskOutcome, results_in_order
from stratalog.engine.progress import Progress
from stratalog.engine.threads import ThreadEngine
from stratalog.errors import CorruptRecordError
from stratalog.files.reading import DiskReader
from stratalog.files.simulated import SimulatedDisk
from tests.waiting import PATIENCE_S


def factorial(_: DiskReader, task: int) -> int:
    return math.factorial(task)


def test_results_come_in_the_order_of_the_tasks() -> None:
    results = results_in_order(ThreadEngine(4).run(factorial, list(range(30)), sizes=list(range(30))))

    assert results == [math.factorial(task) for task in range(30)]


def test_outcomes_come_as_they_finish() -> None:
    first_may_end = threading.Event()

    def run(_: DiskReader, task: int) -> int:
        if task == 0:
            assert first_may_end.wait(PATIENCE_S)
        return task

    outcomes = ThreadEngine(2).run(run, [0, 1])
    assert next(outcomes) == TaskOutcome(1, 1, 1)
    first_may_end.set()

    assert [*outcomes] == [TaskOutcome(0, 0, 0)]


def test_no_tasks_give_no_results() -> None:
    assert results_in_order(ThreadEngine().run(factorial, [])) == []


def test_the_largest_task_starts_first() -> None:
    started: list[int] = []

    results_in_order(
        ThreadEngine(1).run(lambda _, task: started.append(task), [0, 1, 2, 3], sizes=[5, 30, 1, 8])
    )

    assert started == [1, 3, 0, 2]


def test_tasks_that_name_what_they_read_from_are_taken_in_their_order() -> None:
    started: list[int] = []
    disk = SimulatedDisk.of({"/data/x": b""})

    results_in_order(
        ThreadEngine(1, disk=disk).run(
            lambda _, task: started.append(task), [0, 1, 2], sizes=[5, 30, 1], paths=["/data"] * 3
        )
    )

    assert started == [0, 1, 2]


def test_tasks_run_side_by_side() -> None:
    both = threading.Barrier(2, timeout=PATIENCE_S)

    assert sorted(results_in_order(ThreadEngine(2).run(lambda *_: both.wait(), [0, 1]))) == [0, 1]


def test_a_task_reads_through_the_engines_disk() -> None:
    disk = SimulatedDisk.of({"/data/x": b"0123456789"})
    engine = ThreadEngine(disk=disk)

    assert results_in_order(engine.run(lambda door, name: door.read_file(name), ["/data/x"])) == [
        b"0123456789"
    ]


def test_a_failed_task_leaves_the_others_alone() -> None:
    def fail_one(_: DiskReader, task: int) -> int:
        if task == 1:
            raise CorruptRecordError("planted", position=task)
        return task

    outcomes = sorted(ThreadEngine(2).run(fail_one, [0, 1, 2]), key=lambda outcome: outcome.number)

    assert [outcome.error is None for outcome in outcomes] == [True, False, True]
    assert [outcomes[0].result, outcomes[2].result] == [0, 2]


def test_an_error_is_raised_and_waiting_tasks_are_dropped() -> None:
    started: list[int] = []

    def fail_first(_: DiskReader, task: int) -> None:
        started.append(task)
        if task == 0:
            raise CorruptRecordError("planted", position=task)

    with pytest.raises(CorruptRecordError, match="planted"):
        results_in_order(ThreadEngine(1).run(fail_first, list(range(1000))))

    assert len(started) < 100


def test_progress_counts_tasks_and_bytes() -> None:
    seen: list[Progress] = []
    disk = SimulatedDisk.of({"/data/x": bytes(321)})
    outcomes = ThreadEngine(1, disk=disk).run(
        lambda door, size: door.read_at("/data/x", size, 0),
        [1, 20, 300],
        sizes=[1, 20, 300],
        on_progress=seen.append,
    )

    results_in_order(outcomes)

    assert [progress.bytes_done for progress in seen] == sorted(progress.bytes_done for progress in seen)
    assert (seen[-1].bytes_done, seen[-1].tasks_done, seen[-1].seconds_left) == (321, 3, 0.0)
    assert {(progress.tasks_count, progress.bytes_total) for progress in seen} == {(3, 321)}


def test_progress_tells_of_the_devices_that_tasks_read_from() -> None:
    seen: list[Progress] = []
    disk = SimulatedDisk.of({"/data/x": bytes(100)})
    outcomes = ThreadEngine(disk=disk).run(
        lambda door, path: door.read_at(path, 100, 0),
        ["/data/x"],
        sizes=[100],
        paths=["/data"],
        on_progress=seen.append,
    )

    results_in_order(outcomes)

    assert [(use.bytes_read, use.bytes_total) for use in seen[-1].devices] == [(100, 100)]


def test_a_size_for_each_task_is_asked_for() -> None:
    with pytest.raises(ValueError, match="2 sizes for 3 tasks"):
        results_in_order(ThreadEngine().run(factorial, [1, 2, 3], sizes=[1, 2]))


def test_a_task_that_is_not_wanted_when_its_turn_comes_is_not_begun() -> None:
    begun: list[int] = []
    given_up: set[int] = set()

    def note(_: DiskReader, number: int) -> int:
        begun.append(number)
        return number

    outcomes = ThreadEngine(1).run(note, [0, 1, 2, 3], is_wanted=lambda number: number not in given_up)
    given_up |= {1, 3}

    assert sorted(outcome.number for outcome in outcomes) == [0, 2]
    assert sorted(begun) == [0, 2]
