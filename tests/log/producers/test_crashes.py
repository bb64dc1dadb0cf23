"""Snapshots on a disk that refuses or loses its power at any step."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from stratalog.errors import DiskError
from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.log.producers.entry import ProducerStateEntry
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.producers.snapshot import build_snapshot
from stratalog.segment.producers import BatchMetadata

NOW = 1_700_000_000_000
DIRECTORY = "/logs/t-0"
OLDER = f"{DIRECTORY}/00000000000000000005.snapshot"
NEWER = f"{DIRECTORY}/00000000000000000009.snapshot"
# Several sectors long, so that it can be torn; and longer than what takes its place.
LEFTOVER = build_snapshot([ProducerStateEntry(number, producer_epoch=0) for number in range(40)])


def entry(sequence: int) -> ProducerStateEntry:
    return ProducerStateEntry(
        1, producer_epoch=0, last_timestamp=NOW, batches=[BatchMetadata(sequence, sequence, 0, NOW)]
    )


def opened(disk: SimulatedDisk) -> ProducerStateManager:
    state = ProducerStateManager(disk, DIRECTORY, clock=lambda: NOW)
    state.truncate_and_reload(0, 9, NOW)
    return state


def take_second(disk: SimulatedDisk) -> ProducerStateManager:
    """The state of offset 5 is on the disk; then comes that of offset 9, of thirty producers."""
    state = opened(disk)
    state.load_producer_entry(entry(8))
    for number in range(2, 31):
        state.load_producer_entry(ProducerStateEntry(number, producer_epoch=0, last_timestamp=NOW))
    state.update_map_end_offset(9)
    state.take_snapshot()
    return state


def disk_with_the_first() -> SimulatedDisk:
    return SimulatedDisk.of({OLDER: build_snapshot([entry(4)])})


def disk_with_a_leftover() -> SimulatedDisk:
    """A longer file has the name of the second already; it is damaged, as a crash of another time left it."""
    return SimulatedDisk.of({OLDER: build_snapshot([entry(4)]), NEWER: LEFTOVER[:-1]})


@pytest.mark.parametrize("make", [disk_with_the_first, disk_with_a_leftover])
def test_after_a_power_cut_at_any_step_one_of_the_two_states_is_found(
    make: Callable[[], SimulatedDisk],
) -> None:
    whole = make()
    take_second(whole)
    seen = set()
    for step in range(1, whole.steps + 1):
        disk = make()
        disk.crash_at(step)
        with pytest.raises(PowerCut):
            take_second(disk)
        for found in disk.crash():
            state = opened(found)
            seen.add((state.map_end_offset, len(state.producers), state.producers[1].last_sequence))

    assert seen == {(5, 1, 4), (9, 30, 8)}


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("make", [disk_with_the_first, disk_with_a_leftover])
def test_a_snapshot_that_fails_at_any_step_can_be_taken_again(
    make: Callable[[], SimulatedDisk], number: int
) -> None:
    beginning = make()
    opened(beginning)
    whole = make()
    take_second(whole)
    for step in range(beginning.steps + 1, whole.steps + 1):
        disk = make()
        state = opened(disk)
        disk.fail_at(step, number)
        state.update_map_end_offset(9)
        with pytest.raises(DiskError):
            state.take_snapshot()

        assert state.take_snapshot() == NEWER
        assert disk.contents()[NEWER] == build_snapshot([entry(4)])
