"""Which segments a recovery reads, and that it reads none of them twice."""

from __future__ import annotations

import pytest

from stratalog.log.recovery.task import run_scan
from tests.log.recovery.directory import Directory, scanned


@pytest.mark.parametrize(
    ("recovery_point", "expected"),
    [(0, [0, 2, 4, 6, 8]), (1, [0, 2, 4, 6, 8]), (4, [4, 6, 8]), (5, [4, 6, 8]), (9, [8]), (2**63 - 1, [8])],
)
def test_from_the_segment_of_the_recovery_point_on_all_is_scanned(
    pairs: Directory, recovery_point: int, expected: list[int]
) -> None:
    assert scanned(pairs, recovery_point) == expected


def test_after_a_clean_stop_nothing_is_scanned(pairs: Directory) -> None:
    assert scanned(pairs, clean=True) == []


def test_everything_is_scanned_if_asked_for(pairs: Directory) -> None:
    assert scanned(pairs, 9, scan_all=True) == [0, 2, 4, 6, 8]


def test_a_segment_without_its_time_index_is_scanned_wherever_it_is(pairs: Directory) -> None:
    pairs.delete(2, ".timeindex")

    assert scanned(pairs, 9) == [2, 8]
    assert scanned(pairs, clean=True) == [2]


def test_a_segment_without_its_offset_index_costs_the_snapshots_behind_it(pairs: Directory) -> None:
    # As in Kafka: to recover the segment it goes back to its base, and writes the snapshots again.
    pairs.delete(2, ".index")

    assert scanned(pairs, clean=True) == scanned(pairs, 9) == [2, 4, 6, 8]


def test_without_a_snapshot_the_segments_behind_the_one_before_tell_of_producers(pairs: Directory) -> None:
    pairs.delete(8, ".snapshot")
    pairs.delete(6, ".snapshot")

    assert scanned(pairs, 9) == [4, 6, 8]


def test_a_damaged_snapshot_counts_as_none(pairs: Directory) -> None:
    pairs.append(8, ".snapshot", b"?")

    assert scanned(pairs, 9) == [6, 8]


def test_a_survey_and_its_scans_change_nothing(pairs: Directory) -> None:
    before = pairs.contents()
    pairs.delete(2, ".index")
    pairs.append(8, ".log", b"torn")
    damaged = pairs.contents()

    for task in pairs.survey().scans:
        run_scan(pairs.disk, task)

    assert pairs.contents() == damaged != before
