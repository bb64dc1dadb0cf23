"""A truncation on a machine that stops at any step of it: a beginning of the log is left, without a hole, and
what was cut off does not come back.

A kill leaves what the program has done so far; a power cut also takes what was not synced, in part or in any
order.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog import PartitionLog
from stratalog.files.disk import Path as DiskPath
from stratalog.files.names import (
    CLEANER_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    TopicPartition,
)
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.checkpoint_file import OffsetCheckpointFile
from stratalog.records.control import ControlType
from tests import profile
from tests.log.crashing import crashed_at, fill, opened, steps_of, value_of, values
from tests.log.model import NOW, ManualScheduler, append_marker, produced

COUNT, CUT = 16, 5
MOST = 300  # images of one power cut: without the syncs there are very many
ALL = {offset: value_of(offset) for offset in range(COUNT)}
ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    return folder


def truncated(log: PartitionLog, _: ManualScheduler) -> None:
    fill(log, COUNT)
    log.flush()
    log.truncate_to(CUT)


def filled(log: PartitionLog, _: ManualScheduler) -> None:
    fill(log, COUNT)
    log.flush()


def append_new(log: PartitionLog, count: int) -> None:
    """Records of the same size as the old ones, so that leftovers of those would be whole batches."""
    for _ in range(count):
        log.append(value_of(log.end_offset, "new"), timestamp=NOW)


def chosen(steps: range) -> Iterator[int]:
    """All of them in deep, a seeded part of them otherwise."""
    count = min(len(steps), profile.examples(len(steps), quick=12))
    yield from sorted(random.Random(7).sample(steps, count))


def truncation_steps(directory: Path) -> range:
    return range(steps_of(directory, filled) + 1, steps_of(directory, truncated) + 1)


def test_a_truncation_that_is_killed_leaves_no_hole(directory: Path) -> None:
    for step in truncation_steps(directory):
        # All that a process wrote is there when only the process dies.
        disk = SimulatedDisk.of(crashed_at(directory, truncated, step).contents())

        with opened(directory, disk) as log:
            read = values(log)

        assert CUT <= len(read) <= COUNT
        assert read == {offset: ALL[offset] for offset in range(len(read))}


def test_a_power_cut_in_a_truncation_leaves_a_beginning_of_the_log(directory: Path) -> None:
    for step in chosen(truncation_steps(directory)):
        for image in crashed_at(directory, truncated, step).crash(MOST):
            with opened(directory, image) as log:
                read = values(log)

            assert CUT <= len(read) <= COUNT
            assert read == {offset: ALL[offset] for offset in range(len(read))}


def test_truncated_records_do_not_come_back_after_a_power_cut(directory: Path) -> None:
    disk = crashed_at(directory, truncated, 1 << 30)

    for image in disk.crash(MOST):
        with opened(directory, image) as log:
            assert values(log) == {offset: ALL[offset] for offset in range(CUT)}


@pytest.mark.parametrize("is_flushed", [True, False])
def test_truncated_records_do_not_come_back_behind_new_ones(directory: Path, is_flushed: bool) -> None:
    def story(log: PartitionLog, scheduler: ManualScheduler) -> None:
        truncated(log, scheduler)
        append_new(log, 1)
        if is_flushed:
            log.flush()

    expected = {offset: ALL[offset] for offset in range(CUT)}
    expected |= {CUT: value_of(CUT, "new")}
    for image in crashed_at(directory, story, 1 << 30).crash(MOST):
        with opened(directory, image) as log:
            read = values(log)
        # Any unflushed record may be there, but nothing else.
        assert read.items() <= expected.items()
        assert len(read) >= (len(expected) if is_flushed else CUT)


def test_a_log_that_was_truncated_below_its_start_is_not_begun_anew_above_its_records(
    directory: Path,
) -> None:
    def story(log: PartitionLog, scheduler: ManualScheduler) -> None:
        filled(log, scheduler)
        log.delete_records(CUT + 2)
        log.truncate_to(CUT)
        append_new(log, 1)
        log.flush()

    for image in crashed_at(directory, story, 1 << 30).crash(MOST):
        with opened(directory, image) as log:
            assert values(log) == {CUT: value_of(CUT, "new")}


def test_a_log_that_is_truncated_below_its_first_segment_never_gives_offsets_again(directory: Path) -> None:
    """Its files are gone for a moment, and until then only their names say where it starts."""

    def emptied(log: PartitionLog, scheduler: ManualScheduler) -> None:
        filled(log, scheduler)
        log.delete_records(COUNT - 2)
        log.log.delete_old_segments()
        log.log.keep_start()  # as closing does: the name of the first segment says it

    def story(log: PartitionLog, scheduler: ManualScheduler) -> None:
        emptied(log, scheduler)
        log.truncate_to(CUT)

    first, last = steps_of(directory, emptied), steps_of(directory, story)
    for step in range(first + 1, last + 2):
        for image in crashed_at(directory, story, step).crash(20):
            with opened(directory, image) as log:
                assert log.start_offset in {CUT, COUNT - 2}
                assert log.end_offset >= CUT


def test_a_log_that_begins_anew_does_so_after_a_power_cut_too(directory: Path) -> None:
    def story(log: PartitionLog, scheduler: ManualScheduler) -> None:
        filled(log, scheduler)
        log.delete_records(CUT)
        log.log.truncate_fully_and_start_at(2)
        append_new(log, 2)
        log.flush()

    for image in crashed_at(directory, story, 1 << 30).crash(MOST):
        with opened(directory, image) as log:
            assert values(log) == {offset: value_of(offset, "new") for offset in (2, 3)}


def test_a_truncation_takes_its_epochs_and_producers_along(directory: Path) -> None:
    """A snapshot or an epoch of records that are gone says something wrong of those in their place."""

    def story(log: PartitionLog, _: ManualScheduler) -> None:
        core = log.log
        core.append_as_leader(produced(1, 0, b"kept"), leader_epoch=0)
        for sequence in range(1, 6):
            core.append_as_leader(produced(1, sequence, b"gone" * 20), leader_epoch=5)
        core.append_as_leader(produced(2, 0, b"gone", transactional=True), leader_epoch=5)
        append_marker(core, 2, ControlType.ABORT, leader_epoch=5)
        log.flush()
        log.truncate_to(1)
        for sequence in range(1, 9):
            core.append_as_leader(produced(1, sequence, b"new!" * 20), leader_epoch=0)
        log.flush()

    for image in crashed_at(directory, story, 1 << 30).crash(MOST):
        with opened(directory, image) as log:
            core = log.log
            assert [(entry.epoch, entry.start_offset) for entry in core.epochs.entries] == [(0, 0)]
            assert {key: entry.last_sequence for key, entry in core.producers.producers.items()} == {1: 8}
            assert log.last_stable_offset == log.end_offset == 9


MARKS = (RECOVERY_POINT_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT)


class WatchedDisk(SimulatedDisk):
    """Which notes what a power cut would leave of the marks when the first segment is about to go."""

    def __init__(self, home: str) -> None:
        super().__init__()
        self.home = home
        self.found: list[dict[TopicPartition, int]] = []

    def marks(self) -> list[OffsetCheckpointFile]:
        return [OffsetCheckpointFile(self, f"{self.home}/{name}") for name in MARKS]

    def rename(self, source: DiskPath, target: DiskPath) -> None:
        if str(target).endswith(".log.deleted") and not self.found:
            for image in self.crash(MOST):
                self.found += [OffsetCheckpointFile(image, file.path).read() for file in self.marks()]
        super().rename(source, target)


def test_a_recovery_point_above_the_end_of_a_log_is_lowered_when_it_is_opened(directory: Path) -> None:
    """It would wrongly cover the records appended next."""
    disk = WatchedDisk(str(directory.parent))
    disk.make_directories(str(directory.parent))
    points = disk.marks()[0]
    points.write({ORDERS: 7})

    with opened(directory, disk) as log:
        assert log.end_offset == 0

        assert points.read() == {ORDERS: 0}


def test_a_truncation_in_a_brokers_directory_lowers_its_marks_before_it_cuts(directory: Path) -> None:
    """Otherwise recovery would treat later records there as flushed, and not scan them."""
    other = TopicPartition("orders", 1)
    disk = WatchedDisk(str(directory.parent))
    disk.make_directories(str(directory.parent))
    disk.marks()[0].write({other: 9})  # so that it is a log directory
    disk.sync_everything()
    with opened(directory, disk) as log:
        filled(log, ManualScheduler(lambda: NOW))
        for file in disk.marks():
            file.write({ORDERS: COUNT, other: 9})

        log.truncate_to(CUT)

        after = [file.read() for file in disk.marks()]
    assert disk.found == [{ORDERS: CUT, other: 9}] * len(disk.found) != []
    assert after == [{ORDERS: CUT, other: 9}] * 3
