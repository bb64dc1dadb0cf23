"""The entries of one log in the checkpoints of its directory, beside those of others."""

from __future__ import annotations

import pytest

from stratalog.files.simulated import SimulatedDisk
from stratalog.log.checkpoint_file import OffsetCheckpointFile
from stratalog.log.kept_marks import KeptMarks
from tests.log.model import ORDERS

STARTS, POINTS, CLEANED = "/data/starts", "/data/points", "/data/cleaned"


def marks_on(disk: SimulatedDisk) -> KeptMarks:
    ends = [OffsetCheckpointFile(disk, path) for path in (POINTS, CLEANED)]
    return KeptMarks(ORDERS, starts=OffsetCheckpointFile(disk, STARTS), ends=ends)


def on_device(disk: SimulatedDisk) -> list[dict[str, bytes]]:
    """What each power cut now may leave."""
    return [found.contents() for found in disk.crash()]


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk.of(
        {
            STARTS: b"0\n2\norders 0 3\nother 1 5\n",
            POINTS: b"0\n2\norders 0 30\nother 1 50\n",
            CLEANED: b"0\n1\nother 1 40\n",
        }
    )


def test_a_start_is_on_the_device_beside_those_of_other_logs(disk: SimulatedDisk) -> None:
    marks_on(disk).keep_start(lambda: 7)

    for found in on_device(disk):
        assert sorted(found[STARTS].splitlines()) == [b"0", b"2", b"orders 0 7", b"other 1 5"]


def test_a_start_that_the_first_segment_says_has_no_entry(disk: SimulatedDisk) -> None:
    marks_on(disk).keep_start(lambda: None)

    assert disk.contents()[STARTS] == b"0\n1\nother 1 5\n"


def test_all_marks_that_follow_the_end_are_lowered_on_the_device(disk: SimulatedDisk) -> None:
    marks_on(disk).lower(20)

    for found in on_device(disk):
        assert sorted(found[POINTS].splitlines()) == [b"0", b"2", b"orders 0 20", b"other 1 50"]
        assert found[STARTS] == b"0\n2\norders 0 3\nother 1 5\n"


def test_a_mark_is_never_raised(disk: SimulatedDisk) -> None:
    before = disk.contents()

    marks_on(disk).lower(31)

    assert disk.contents() == before


def test_a_log_without_an_entry_gets_none(disk: SimulatedDisk) -> None:
    marks_on(disk).lower(20)

    assert disk.contents()[CLEANED] == b"0\n1\nother 1 40\n"
