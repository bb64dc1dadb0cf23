"""Offsets and the leader epoch, set in the batches of a staged segment."""

from __future__ import annotations

import pytest

from stratalog.errors import CorruptRecordError, DiskError
from stratalog.files.simulated import SimulatedDisk
from stratalog.jobs.writing.patch import patch_segment
from tests import naive
from tests.naive import Record, encode_batch
from tests.records.strategies import plain

PATH = "/logs/staged"


def batch(offset: int, count: int, *, epoch: int) -> bytes:
    records = [Record(offset + number, 100, b"k", b"v%d" % number) for number in range(count)]
    return encode_batch(records, partition_leader_epoch=epoch)


STAGED = batch(0, 3, epoch=0) + batch(3, 1, epoch=0) + batch(4, 2, epoch=0)
PATCHED = batch(70, 3, epoch=9) + batch(73, 1, epoch=9) + batch(74, 2, epoch=9)


def patch(disk: SimulatedDisk, size: int = len(STAGED)) -> int:
    return patch_segment(disk, PATH, size, base_offset=70, leader_epoch=9, sync=True)


def test_a_patched_segment_is_what_would_have_been_written_at_its_place() -> None:
    disk = SimulatedDisk.of({PATH: STAGED})

    assert patch(disk) == 76
    assert disk.contents()[PATH] == PATCHED
    assert [record.offset for record in naive.decode(PATCHED, plain)] == list(range(70, 76))


def test_patching_again_or_on_from_the_middle_comes_to_the_same() -> None:
    half = PATCHED[: len(PATCHED) // 2] + STAGED[len(STAGED) // 2 :]
    for before in (PATCHED, batch(70, 3, epoch=9) + STAGED[len(batch(0, 3, epoch=0)) :], half):
        disk = SimulatedDisk.of({PATH: before})

        assert patch(disk) == 76
        assert disk.contents()[PATH] == PATCHED


def test_a_file_that_is_not_there_or_not_as_it_was_written_is_told() -> None:
    with pytest.raises(DiskError, match="a task wrote this file"):
        patch(SimulatedDisk.of({"/logs/other": b""}))
    with pytest.raises(CorruptRecordError, match="its task wrote 5"):
        patch(SimulatedDisk.of({PATH: STAGED}), 5)
    with pytest.raises(CorruptRecordError, match="no batch starts here"):
        patch(SimulatedDisk.of({PATH: bytes(len(STAGED))}))
