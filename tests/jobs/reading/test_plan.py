"""How a read is cut into tasks, and what it does not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.jobs.reading import plan as planning
from tests.jobs.reading.making import T0, Made, plan, read, rows_of


def sizes(path: Path, **options: str) -> list[int]:
    return [sum(split.size for split in task.splits) for task in plan(path, **options)]


def test_small_segments_are_packed_into_one_task(made_log: Made) -> None:
    (task,) = plan(made_log.path)

    assert len(task.splits) == len(list(made_log.path.glob("*.log"))) == 5


def test_at_least_so_many_partitions_are_made_inside_segments(made_log: Made) -> None:
    tasks = plan(made_log.path, minPartitions="40")

    assert len(tasks) >= 40 > len(list(made_log.path.glob("*.log")))
    assert rows_of(tasks) == made_log.all_rows


def test_a_large_partition_feeds_every_core(made_log: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "SMALLEST_TASK", 1000)

    found = [sum(split.size for split in task.splits) for task in plan(made_log.path, cores=8)]

    assert 16 <= len(found) <= 32
    assert max(found) < 2 * sum(found) / len(found)


def test_each_byte_is_in_one_task(made_log: Made) -> None:
    total = sum(file.stat().st_size for file in made_log.path.glob("*.log"))

    assert sum(sizes(made_log.path, minPartitions="30")) == total


def test_no_task_has_more_records_than_allowed(made_log: Made) -> None:
    tasks = plan(made_log.path, maxRecordsPerPartition="77")

    assert max(len(rows_of([task])) for task in tasks) <= 77
    assert rows_of(tasks) == made_log.all_rows


def test_an_hour_of_a_day_reads_few_bytes(made_log: Made) -> None:
    options = {
        "startingTimestamp": str(T0 + 1000 * 1000),
        "endingTimestamp": str(T0 + 1000 * 1030),
    }

    assert read(made_log.path, **options) == made_log.rows(range(1000, 1030))
    assert sum(sizes(made_log.path, **options)) < sum(sizes(made_log.path)) / 50


def test_planning_changes_nothing(made_log: Made) -> None:
    before = {file: file.stat().st_mtime_ns for file in made_log.path.parent.rglob("*")}

    rows_of(plan(made_log.path, isolation="read_committed"))

    assert {file: file.stat().st_mtime_ns for file in made_log.path.parent.rglob("*")} == before
