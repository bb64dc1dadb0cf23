"""Which segments a recovery reads, and that it reads none of them twice."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from stratalog.log.recovery.task import run_scan
from tests.log.model import batch
from tests.log.recovery.directory import Directory

ONE = len(batch(b"x"))


@pytest.fixture
def orders(tmp_path: Path) -> Directory:
    """Segments 0, 2, 4, 6 and 8, of two batches each but for the last, which has one."""
    directory = Directory(tmp_path / "data", internal_segment_bytes=2 * ONE, index_interval_bytes=1)
    log = directory.open()
    for _ in range(9):
        log.append_as_leader(batch(b"x"), leader_epoch=0)
    log.close()
    return directory


def scanned(orders: Directory, recovery_point: int = 0, *, clean: bool = False, **options: bool) -> list[int]:
    survey = orders.survey(recovery_point=recovery_point, clean=clean, **options)
    return [task.base_offset for task in survey.scans]


@pytest.mark.parametrize(
    ("recovery_point", "expected"),
    [(0, [0, 2, 4, 6, 8]), (1, [0, 2, 4, 6, 8]), (4, [4, 6, 8]), (5, [4, 6, 8]), (9, [8]), (2**63 - 1, [8])],
)
def test_from_the_segment_of_the_recovery_point_on_all_is_scanned(
    orders: Directory, recovery_point: int, expected: list[int]
) -> None:
    assert scanned(orders, recovery_point) == expected


def test_after_a_clean_stop_nothing_is_scanned(orders: Directory) -> None:
    assert scanned(orders, clean=True) == []


def test_everything_is_scanned_if_asked_for(orders: Directory) -> None:
    assert scanned(orders, 9, scan_all=True) == [0, 2, 4, 6, 8]


def test_a_segment_without_its_time_index_is_scanned_wherever_it_is(orders: Directory) -> None:
    orders.delete(2, ".timeindex")

    assert scanned(orders, 9) == [2, 8]
    assert scanned(orders, clean=True) == [2]


def test_a_segment_without_its_offset_index_costs_the_snapshots_behind_it(orders: Directory) -> None:
    # So it is with Kafka: to recover the segment it goes back to its base, and takes them anew.
    orders.delete(2, ".index")

    assert scanned(orders, clean=True) == scanned(orders, 9) == [2, 4, 6, 8]


def test_an_index_that_points_behind_its_log_is_built_anew(orders: Directory) -> None:
    before = orders.contents()
    orders.write(2, ".index", (1).to_bytes(4, "big") + (5000).to_bytes(4, "big"))

    assert scanned(orders, 9) == [2, 8]

    orders.recover(recovery_point=9)
    assert orders.contents() == before


def test_a_padded_offset_index_alone_is_cut_without_a_scan(orders: Directory) -> None:
    orders.append(2, ".index", bytes(80))

    assert scanned(orders, 9) == [8]


def test_without_a_snapshot_the_segments_behind_the_one_before_tell_of_producers(orders: Directory) -> None:
    orders.delete(8, ".snapshot")
    orders.delete(6, ".snapshot")

    assert scanned(orders, 9) == [4, 6, 8]


def test_a_damaged_snapshot_counts_as_none(orders: Directory) -> None:
    orders.append(8, ".snapshot", b"?")

    assert scanned(orders, 9) == [6, 8]


def test_only_what_a_snapshot_inside_a_segment_does_not_know_is_read(orders: Directory) -> None:
    snapshot = orders.file(8, ".snapshot").read_bytes()
    orders.delete(8, ".snapshot")
    orders.write(7, ".snapshot", snapshot)

    survey = orders.survey(recovery_point=9)

    assert [(task.base_offset, task.start_position) for task in survey.scans] == [(6, ONE), (8, 0)]


def test_a_survey_and_its_scans_change_nothing(orders: Directory) -> None:
    before = orders.contents()
    orders.delete(2, ".index")
    orders.append(8, ".log", b"torn")
    damaged = orders.contents()

    for task in orders.survey().scans:
        run_scan(orders.disk, task)

    assert orders.contents() == damaged != before


def test_tasks_and_results_travel(orders: Directory) -> None:
    for task in orders.survey().scans:
        sent = pickle.loads(pickle.dumps(task))
        result = run_scan(orders.disk, sent)

        assert sent == task
        assert pickle.loads(pickle.dumps(result)) == result


def test_an_index_that_is_on_disk_already_is_not_carried_around(orders: Directory) -> None:
    (*_, last) = orders.survey(recovery_point=9).scans

    result = run_scan(orders.disk, last)

    assert (result.index.data, result.time_index.data) == (None, None)
    assert (result.scan.offset_index, result.scan.time_index) == (b"", b"")
