"""A power cut at any step of a move: the next start finds the log, once, with all that was flushed."""

from __future__ import annotations

import random

import pytest

from stratalog.directory.pending_move import NOTE
from stratalog.files.entries import Path
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.manager.manager import LogManager
from tests import profile
from tests.manager.running import append, values
from tests.manager.test_manager_crashes import manager_on as any_manager_on

ORDERS = TopicPartition("orders", 0)
PLACES = ("/disk-1", "/disk-2")
VALUES = [b"a", b"b", b"c"]
MOST = 12  # images of a step
STALE = f"{PLACES[1]}/cleaner-offset-checkpoint"


def manager_on(disk: SimulatedDisk) -> LogManager:
    return any_manager_on(disk, *PLACES, high_watermark_follows_end=True)


def written(disk: SimulatedDisk) -> LogManager:
    """A manager with a log whose records are flushed."""
    manager = manager_on(disk)
    manager.startup()
    log = manager.get_or_create_log(ORDERS, is_new=True, directory=PLACES[0])
    append(log, *VALUES)
    log.flush()
    return manager


def move(manager: LogManager) -> None:
    """The log moves to the other directory, and is written to there."""
    append(manager.move_log(ORDERS, PLACES[1]), b"d")


def new_disk(disk: SimulatedDisk | None = None) -> SimulatedDisk:
    disk = SimulatedDisk() if disk is None else disk
    for place in PLACES:
        disk.make_directories(place)
    disk.sync_everything()
    return disk


def steps_of_a_move() -> list[int]:
    disk = new_disk()
    manager = written(disk)
    before = disk.steps
    move(manager)
    steps = range(1, disk.steps - before + 1)
    return sorted(random.Random(3).sample(steps, profile.examples(len(steps), quick=12)))


@pytest.mark.parametrize("step", steps_of_a_move())
def test_a_power_cut_in_a_move_does_not_leave_a_log_in_two_directories(step: int) -> None:
    disk = new_disk()
    manager = written(disk)
    disk.crash_at(disk.steps + step)
    with pytest.raises(PowerCut):
        move(manager)

    for found in disk.crash(MOST):
        manager = manager_on(found)
        manager.startup()

        (log,) = [log for log in manager.all_logs() if not log.directory.endswith("-future")]
        assert values(log)[: len(VALUES)] == VALUES
        manager.shutdown()
        assert not found.exists(f"{PLACES[1]}/{NOTE}")


class CutAtItsName(SimulatedDisk):
    """Loses its power when a copy has just got the name of its log."""

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        if target == f"{PLACES[1]}/{ORDERS}":
            self.crash_at(self.steps + 1)


def test_a_crash_when_the_copy_has_its_name_leaves_no_word_on_how_clean_an_earlier_log_was() -> None:
    disk = new_disk(CutAtItsName())
    manager = written(disk)
    disk.replace(STALE, b"0\n1\norders 0 3\n")

    with pytest.raises(PowerCut):
        move(manager)

    assert disk.contents()[STALE] == b"0\n0\n"
