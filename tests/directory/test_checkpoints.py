"""The four checkpoints of a log directory: a broker's files are read, unreadable ones are reported."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stratalog.directory.checkpoint_table import (
    CHECKPOINTS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CheckpointMarks,
)
from stratalog.directory.checkpoints import DirectoryCheckpoints, clamp
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import SimulatedDisk
from tests.fixtures.catalog import log_dirs

ORDERS = TopicPartition("orders", 0)
CLOSED = CheckpointMarks(topic_partition=ORDERS, recovery_point=9, start_to_keep=None)


def test_the_checkpoints_of_a_broker_are_read() -> None:
    (clean,) = log_dirs("4.3.1", "clean")
    checkpoints = DirectoryCheckpoints(Disk(), clean)

    points = checkpoints.recovery_points.read()

    assert len(points) == 12
    assert points[TopicPartition("compacted", 0)] == 161
    assert checkpoints.log_start_offsets.read() == {TopicPartition("trimmed", 0): 17}
    assert checkpoints.high_watermarks.read() == points
    assert checkpoints.cleaner_offsets.read() == {TopicPartition("compacted", 0): 150}
    assert [checkpoints.why_lost(row) for row in CHECKPOINTS] == [None] * 4


def test_each_has_the_name_that_a_broker_looks_for() -> None:
    disk = SimulatedDisk()
    disk.make_directories("/data")
    checkpoints = DirectoryCheckpoints(disk, "/data")

    checkpoints.recovery_points.write({ORDERS: 1})
    checkpoints.log_start_offsets.write({ORDERS: 2})
    checkpoints.high_watermarks.write({})
    checkpoints.cleaner_offsets.write({ORDERS: 4})

    assert disk.contents() == {
        "/data/cleaner-offset-checkpoint": b"0\n1\norders 0 4\n",
        "/data/log-start-offset-checkpoint": b"0\n1\norders 0 2\n",
        "/data/recovery-point-offset-checkpoint": b"0\n1\norders 0 1\n",
        "/data/replication-offset-checkpoint": b"0\n0\n",
    }


@pytest.mark.parametrize(
    ("data", "consequence"),
    [
        (b"1\n0\n", "offline"),
        (b"0\n2\norders 0 5\n", "offline"),
        (b"0\n1\norders 5\n", "offline"),
        (b"0\n1\norders 0 five\n", "as if the file were empty"),
    ],
)
def test_one_that_cannot_be_read_counts_as_empty_and_is_told(data: bytes, consequence: str) -> None:
    disk = SimulatedDisk.of({"/data/recovery-point-offset-checkpoint": data})
    checkpoints = DirectoryCheckpoints(disk, "/data")

    assert checkpoints.recovery_points.read() == {}

    problem = checkpoints.recovery_points.problem
    assert problem is not None
    assert checkpoints.why_lost(RECOVERY_POINTS) == f"it cannot be read: {problem.words}"
    assert problem.name == "recovery-point-offset-checkpoint"
    assert consequence in problem.consequence


def test_a_checkpoint_that_was_written_anew_is_no_problem_any_more() -> None:
    disk = SimulatedDisk.of({"/data/replication-offset-checkpoint": b"garbage"})
    checkpoint = DirectoryCheckpoints(disk, "/data").high_watermarks
    checkpoint.read()

    checkpoint.write({ORDERS: 7})

    assert checkpoint.read() == {ORDERS: 7}
    assert checkpoint.problem is None


def test_offsets_that_stand_in_the_file_are_not_written_again() -> None:
    disk = SimulatedDisk.of({"/data/cleaner-offset-checkpoint": b"0\n1\norders 0 7\n"})
    checkpoint = DirectoryCheckpoints(disk, "/data").cleaner_offsets
    inode = disk.status(checkpoint.path)

    assert not checkpoint.write_closed([replace(CLOSED, cleaned_to=7)], are_all=False)
    assert disk.status(checkpoint.path) == inode
    assert checkpoint.write_closed([replace(CLOSED, cleaned_to=8)], are_all=False)
    assert checkpoint.read() == {ORDERS: 8}


def test_logs_that_were_closed_change_their_own_entries_only() -> None:
    disk = SimulatedDisk.of(
        {
            "/data/recovery-point-offset-checkpoint": b"0\n2\nother 0 3\norders 0 4\n",
            "/data/replication-offset-checkpoint": b"0\n1\norders 0 4\n",
        }
    )

    DirectoryCheckpoints(disk, "/data").write_closed([CLOSED])

    assert disk.contents() == {
        "/data/recovery-point-offset-checkpoint": b"0\n2\nother 0 3\norders 0 9\n",
        "/data/replication-offset-checkpoint": b"0\n1\norders 0 4\n",
    }


def test_after_a_recovery_the_files_speak_of_the_logs_that_are_here() -> None:
    disk = SimulatedDisk.of(
        {
            "/data/recovery-point-offset-checkpoint": b"0\n1\ngone 0 3\n",
            "/data/replication-offset-checkpoint": b"0\n1\ngone 0 3\n",
            "/data/cleaner-offset-checkpoint": b"garbage",
        }
    )

    DirectoryCheckpoints(disk, "/data").write_closed([CLOSED], are_all=True)

    assert disk.contents() == {
        "/data/cleaner-offset-checkpoint": b"0\n0\n",
        "/data/log-start-offset-checkpoint": b"0\n0\n",
        "/data/recovery-point-offset-checkpoint": b"0\n1\norders 0 9\n",
        "/data/replication-offset-checkpoint": b"0\n1\ngone 0 3\n",
    }


@pytest.mark.parametrize(("offset", "expected"), [(0, 5), (5, 5), (7, 7), (9, 9), (10, 9), (-1, 5)])
def test_a_high_watermark_is_moved_into_the_log(offset: int, expected: int) -> None:
    assert clamp(offset, 5, 9) == expected


def test_one_that_is_missing_beside_the_recovery_points_is_lost() -> None:
    disk = SimulatedDisk()
    disk.make_directories("/data")
    checkpoints = DirectoryCheckpoints(disk, "/data")

    assert checkpoints.why_lost(LOG_START_OFFSETS) is None  # a directory without any is new
    checkpoints.recovery_points.write({ORDERS: 1})
    assert checkpoints.why_lost(LOG_START_OFFSETS) == "it is missing"
