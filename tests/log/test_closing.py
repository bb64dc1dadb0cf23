"""Closing on a disk that refuses a step of it: an error means that a record may be lost, and nothing less."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog import PartitionLog
from stratalog.errors import DiskError
from stratalog.files.simulated import SimulatedDisk
from tests import profile
from tests.log.crashing import fill, new_disk, open_on, opened, values

MARK = ".kafka_cleanshutdown"
COUNT = 5


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    return folder


def filled(directory: Path, *, is_flushed: bool) -> tuple[SimulatedDisk, PartitionLog]:
    disk = new_disk(directory)
    log = open_on(directory, disk)
    fill(log, COUNT)
    log.delete_records(1)
    if is_flushed:
        log.flush()
    return disk, log


def refused_steps(directory: Path, *, is_flushed: bool) -> Iterator[tuple[SimulatedDisk, PartitionLog]]:
    """The log before a close of which one step will be refused; each step, and in two ways."""
    disk, log = filled(directory, is_flushed=is_flushed)
    before = disk.steps
    log.close()
    count = disk.steps - before
    every = max(1, count // profile.examples(count, quick=20))
    for step in range(1, count + 1, every):
        for number in (errno.EIO, errno.ENOSPC):
            disk, log = filled(directory, is_flushed=is_flushed)
            disk.fail_at(disk.steps + step, number)
            yield disk, log


def test_closing_does_not_raise_for_records_that_were_flushed(directory: Path) -> None:
    unmarked = 0
    for disk, log in refused_steps(directory, is_flushed=True):
        log.close()

        unmarked += not disk.exists(directory / MARK)
        with opened(directory, disk) as again:
            assert (again.start_offset, list(values(again))) == (1, list(range(1, COUNT)))

    assert unmarked > 10


def test_a_close_that_raises_nothing_has_brought_every_record_to_the_device(directory: Path) -> None:
    raised = 0
    for disk, log in refused_steps(directory, is_flushed=False):
        try:
            log.close()
        except DiskError:
            raised += 1
            continue
        for image in disk.crash(20):
            with opened(directory, image) as again:
                assert list(values(again)) == list(range(1, COUNT))

    assert raised > 0
