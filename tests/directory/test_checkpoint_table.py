"""The table of offset checkpoints: the files, and what each says about a log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stratalog.config import ManagerConfig
from stratalog.directory.checkpoint_table import (
    CHECKPOINTS,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    MANAGERS,
    RECOVERY_POINTS,
    CheckpointMarks,
    CheckpointRow,
)
from stratalog.files.names import OFFSET_CHECKPOINTS, TopicPartition

ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("other", 0)
MARKS = CheckpointMarks(
    topic_partition=ORDERS, recovery_point=9, start_to_keep=2, high_watermark=7, cleaned_to=5
)
NOT_KNOWN = replace(MARKS, high_watermark=None, cleaned_to=None)


def test_every_checkpoint_that_has_a_name_has_a_row() -> None:
    assert tuple(row.name for row in CHECKPOINTS) == OFFSET_CHECKPOINTS


@pytest.mark.parametrize(
    ("row", "offset"),
    [(RECOVERY_POINTS, 9), (LOG_START_OFFSETS, 2), (HIGH_WATERMARKS, 7), (CLEANER_OFFSETS, 5)],
)
def test_each_file_has_a_mark_of_its_own(row: CheckpointRow, offset: int) -> None:
    assert row.offsets([MARKS], {}, others_stay=False) == {ORDERS: offset}


def test_a_start_that_the_first_segment_says_has_no_entry() -> None:
    marks = replace(MARKS, start_to_keep=None)

    assert LOG_START_OFFSETS.offsets([marks], {ORDERS: 1, OTHER: 3}, others_stay=True) == {OTHER: 3}


def test_the_start_of_a_tiered_log_stays_as_it_was() -> None:
    marks = replace(MARKS, is_tiered=True)

    assert LOG_START_OFFSETS.offsets([marks], {ORDERS: 1}, others_stay=False) == {ORDERS: 1}


@pytest.mark.parametrize("row", [HIGH_WATERMARKS, CLEANER_OFFSETS])
def test_what_nobody_here_knows_stays_as_it_was(row: CheckpointRow) -> None:
    assert row.offsets([NOT_KNOWN], {ORDERS: 4}, others_stay=False) == {ORDERS: 4}
    assert row.offsets([NOT_KNOWN], {}, others_stay=False) == {}


def test_the_manager_writes_all_but_the_cleaners_by_the_brokers_intervals() -> None:
    config = ManagerConfig()

    assert {row.task: row.every_ms(config) for row in MANAGERS} == {
        "kafka-recovery-point-checkpoint": 60_000,
        "kafka-log-start-offset-checkpoint": 60_000,
        "highwatermark-checkpoint": 5_000,
    }


def test_at_shutdown_high_watermarks_are_written_before_the_logs_are_closed() -> None:
    assert [row for row in MANAGERS if row.is_written_open] == [HIGH_WATERMARKS]
