"""A garbled leader-epoch-checkpoint stops no reader: the epochs come from the batches, with a warning."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from stratalog import open_log
from stratalog.clock import system_clock
from stratalog.config import LogConfig
from stratalog.files.disk import Disk
from stratalog.files.names import LEADER_EPOCH_CHECKPOINT, parse_partition_directory
from stratalog.log.api.view import LogView
from stratalog.log.timestamps import SpecialTimestamp
from tests.fixtures.catalog import Partition, partitions

GARBLED = bytes(8)
DATA = [p for p in partitions("4.3.1") if (p.path / LEADER_EPOCH_CHECKPOINT).exists()]


def view_of(path: Path, start: int = 0) -> LogView:
    return LogView(
        disk=Disk(),
        clock=system_clock,
        directory=path,
        topic_partition=parse_partition_directory(path.name).topic_partition,
        config=LogConfig(),
        log_start_offset=start,
    )


def garbled(partition: Partition, target: Path) -> Path:
    path = target / partition.name
    shutil.copytree(partition.path, path)
    (path / LEADER_EPOCH_CHECKPOINT).write_bytes(GARBLED)
    return path


@pytest.mark.parametrize("partition", DATA, ids=str)
def test_a_garbled_epoch_file_does_not_stop_a_view(
    partition: Partition, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (_, _, *lines) = (partition.path / LEADER_EPOCH_CHECKPOINT).read_text().splitlines()
    start = int(lines[0].split()[1])  # where the broker's log starts, trimmed ones too

    view = view_of(garbled(partition, tmp_path), start)

    # A leader that wrote nothing is in the broker's file, but in no batch.
    written = {batch["partitionLeaderEpoch"] for batch in partition.batches()}
    kafka = [tuple(map(int, line.split())) for line in lines]
    assert list(view.epochs) == [entry for entry in kafka if entry[0] in written]
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert LEADER_EPOCH_CHECKPOINT in warning.message
    assert view.notes == (warning.message,)


def test_a_log_with_a_garbled_epoch_file_opens_read_only(tmp_path: Path) -> None:
    (partition,) = [p for p in DATA if p.state == "clean" and p.name == "rolled-0"]
    path = garbled(partition, tmp_path)
    kafka = [record["offset"] for batch in partition.batches() for record in batch["records"]]

    with open_log(path, read_only=True) as view:
        found = [record.offset for record in view.records()]

    assert found == kafka
    assert (path / LEADER_EPOCH_CHECKPOINT).read_bytes() == GARBLED


def test_a_file_that_is_garbled_all_the_time_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (partition,) = [p for p in DATA if p.state == "clean" and p.name == "rolled-0"]
    view = view_of(garbled(partition, tmp_path))

    view.refresh()
    view.look_again()

    assert len(caplog.records) == 1


def test_a_file_that_was_mended_meanwhile_is_believed_again(tmp_path: Path) -> None:
    (partition,) = [p for p in DATA if p.state == "killed" and p.name == "rolled-0"]
    path = garbled(partition, tmp_path)
    view = view_of(path)
    before = view.fetch_offset_by_timestamp(SpecialTimestamp.LATEST)

    shutil.copy(partition.path / LEADER_EPOCH_CHECKPOINT, path)
    view.refresh()

    assert view.notes == ()
    assert view.fetch_offset_by_timestamp(SpecialTimestamp.LATEST) == before
