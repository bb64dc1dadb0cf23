"""The Spark engine keeps the promises of the seam; tests/engine/test_engine.py says them of threads."""

from __future__ import annotations

import math
import pickle
import socket
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stratalog.engine.engine import results_in_order
from stratalog.engine.progress import Progress
from stratalog.errors import CorruptRecordError, NoSuchFileError
from stratalog.files.reading import DiskReader
from stratalog.spark.engine import SparkEngine, met_on, run_pack


def factorial(_: DiskReader, task: int) -> int:
    return math.factorial(task)


def fail_on_three(_: DiskReader, task: int) -> int:
    if task == 3:
        raise CorruptRecordError("planted", position=7, path=Path("dir") / "a.log")
    return task


def divide(_: DiskReader, task: int) -> float:
    return 1 / task


def test_results_come_in_the_order_of_the_tasks(spark: SparkSession) -> None:
    results = results_in_order(SparkEngine(spark).run(factorial, list(range(30)), sizes=list(range(30))))

    assert results == [math.factorial(task) for task in range(30)]


def test_no_tasks_give_no_results(spark: SparkSession) -> None:
    assert results_in_order(SparkEngine(spark).run(factorial, [])) == []


def test_tasks_are_packed_to_a_few_for_each_core(spark: SparkSession) -> None:
    def partition(_disk: DiskReader, _task: int) -> int:
        from pyspark import TaskContext

        context = TaskContext.get()
        return -1 if context is None else context.partitionId()

    partitions = results_in_order(SparkEngine(spark, packs_per_core=3).run(partition, list(range(100))))

    assert sorted(set(partitions)) == list(range(6))


def test_our_errors_arrive_with_their_facts(spark: SparkSession) -> None:
    with pytest.raises(CorruptRecordError) as caught:
        results_in_order(SparkEngine(spark).run(fail_on_three, list(range(5))))

    assert (caught.value.position, caught.value.path) == (7, "dir/a.log")


def test_a_failed_task_leaves_the_others_alone(spark: SparkSession) -> None:
    outcomes = sorted(SparkEngine(spark).run(fail_on_three, list(range(5))), key=lambda each: each.number)

    assert [outcome.number for outcome in outcomes if outcome.error is not None] == [3]
    assert [outcome.task for outcome in outcomes] == list(range(5))


def test_many_tasks_are_several_jobs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratalog.spark.engine.TASKS_IN_A_JOB", 7)
    seen: list[Progress] = []

    results = results_in_order(SparkEngine(spark).run(factorial, list(range(20)), on_progress=seen.append))

    assert results == [math.factorial(task) for task in range(20)]
    assert (seen[-1].tasks_done, seen[-1].bytes_done, seen[-1].bytes_total) == (20, 20, 20)


def test_other_errors_end_the_map_as_sparks_own(spark: SparkSession) -> None:
    from pyspark.errors import PythonException

    with pytest.raises(PythonException, match="ZeroDivisionError"):
        results_in_order(SparkEngine(spark).run(divide, [1, 0]))


def test_progress_grows_to_the_whole(spark: SparkSession) -> None:
    seen: list[Progress] = []

    results_in_order(
        SparkEngine(spark).run(factorial, list(range(20)), sizes=[10] * 20, on_progress=seen.append)
    )

    done = [progress.bytes_done for progress in seen]
    assert done == sorted(done)
    assert (seen[0].bytes_done, seen[-1].bytes_done, seen[-1].bytes_total) == (0, 200, 200)
    assert (seen[-1].tasks_done, seen[-1].tasks_count) == (20, 20)


def test_the_callers_job_group_is_put_back(spark: SparkSession) -> None:
    spark.sparkContext.setJobGroup("mine", "of the caller")

    results_in_order(SparkEngine(spark).run(factorial, [1], on_progress=lambda _: None))

    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") == "mine"
    assert spark.sparkContext.getLocalProperty("spark.job.description") == "of the caller"


def read_text(disk: DiskReader, path: str) -> bytes:
    return disk.read_at(path, 100, 0)


def test_a_worker_that_is_used_again_does_not_read_the_file_of_an_earlier_job(
    spark: SparkSession, tmp_path: Path
) -> None:
    file, new = tmp_path / "a.log", tmp_path / "a.log.swap"
    file.write_bytes(b"old")
    engine = SparkEngine(spark, packs_per_core=8)
    results_in_order(engine.run(read_text, [str(file)] * 16))
    new.write_bytes(b"new")
    new.replace(file)

    results = results_in_order(engine.run(read_text, [str(file)] * 16))

    assert set(results) == {b"new"}


def test_tasks_that_are_no_longer_wanted_when_a_job_starts_have_no_outcome(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratalog.spark.engine.TASKS_IN_A_JOB", 4)

    outcomes = SparkEngine(spark).run(
        factorial, list(range(12)), is_wanted=lambda number: not 3 <= number < 9
    )

    assert sorted(outcome.task for outcome in outcomes) == [0, 1, 2, 9, 10, 11]


def missing(disk: DiskReader, path: str) -> int:
    return disk.size(path)


def test_an_error_of_a_disk_names_the_host_if_it_is_not_the_drivers() -> None:
    ((_, found),) = run_pack(missing, [(0, "nowhere/a.log")])
    here, there = met_on(socket.gethostname(), found), met_on("b2", found)

    assert isinstance(here, NoSuchFileError)
    assert isinstance(there, NoSuchFileError)
    assert str(there) == f"{here} (on host b2)"
    assert (there.path, there.errno) == (here.path, here.errno)


def test_an_error_that_is_not_of_a_disk_did_not_name_the_host() -> None:
    error = CorruptRecordError("its checksum is wrong.", position=70, path="/data/a-0/5.log")

    there = met_on("b2", pickle.loads(pickle.dumps(error)))

    assert isinstance(there, CorruptRecordError)
    assert str(there) == f"{error} (on host b2)"
    assert (there.path, there.position) == (error.path, error.position)


def path_of(_: DiskReader, path: str) -> str:
    return path


def test_a_job_had_tasks_of_a_few_disks_only(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratalog.spark.engine.TASKS_IN_A_JOB", 6)
    paths = [f"/disk{disk}/t-{number}" for disk in range(6) for number in range(5)]
    done: list[Progress] = []

    outcomes = list(
        SparkEngine(spark).run(path_of, paths, sizes=[1] * 30, paths=paths, on_progress=done.append)
    )

    assert all(outcome.value == outcome.task == paths[outcome.number] for outcome in outcomes)
    for first in range(0, 30, 6):
        of_job = {outcome.task.split("/")[1] for outcome in outcomes[first : first + 6]}
        assert len(of_job) == 6
    assert (done[-1].tasks_done, done[-1].bytes_done) == (30, 30)
