"""A disk that fails or loses its power at any step of `retain` and `compact`: run again, they finish.

What must be there afterwards comes from the list of what was appended: of the compacted log the last value of
each key and all behind the part that may be cleaned, of the other the records of the segments that stay.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import pytest

from stratalog.config import ManagerConfig
from stratalog.errors import StratalogError
from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.operations.compact import Compaction
from stratalog.operations.maintaining import Work
from stratalog.operations.retain import Retention
from tests import profile
from tests.log.model import read_all
from tests.operations.crashing import COUNT, maintain, manager_on, new_disk

STATES_OF_A_STEP = 4


def contents(disk: SimulatedDisk) -> dict[str, list[tuple[int, bytes | None]]]:
    """The records of both logs; the directory must open without recovery."""
    manager = manager_on(disk)
    manager.startup()
    try:
        assert all(directory.recovered is None for directory in manager.directories)
        return {
            log.topic_partition.topic: [(record.offset, record.value) for record in read_all(log)]
            for log in manager.all_logs()
        }
    finally:
        manager.shutdown()


def records(first: int) -> list[tuple[int, bytes | None]]:
    return [(offset, b"%04d" % offset) for offset in range(first, COUNT)]


@dataclass(frozen=True, kw_only=True)
class Command:
    name: str
    work: Callable[[], Work]
    expected: dict[str, list[tuple[int, bytes | None]]]


COMMANDS = [
    Command(name="retain", work=Retention, expected={"compacted": records(0), "limited": records(15)}),
    # Of the compacted log 0 to 19 may be cleaned, in which the last ones of three keys are 17, 18 and 19.
    Command(
        name="compact",
        work=lambda: Compaction(ManagerConfig(log_cleaner_dedupe_buffer_size=10_000)),
        expected={"compacted": records(17), "limited": records(0)},
    ),
]


def steps_of(command: Command) -> list[int]:
    disk = new_disk()
    maintain(disk, command.work())
    return list(range(1, disk.steps + 1))


CASES = [(command, step) for command in COMMANDS for step in steps_of(command)]
# All of it deep, a seeded twentieth in ci. With `erase` (test_erasing_crashes.py) more than 3,000 states.
PART = {profile.DEEP: 1, profile.CI: 20, profile.QUICK: 40}[profile.current()]
CHOSEN = sorted(random.Random("maintain").sample(CASES, -(-len(CASES) // PART)), key=CASES.index)


def test_there_are_steps_for_more_than_a_thousand_states() -> None:
    """At two states or more to a step; `erase` counts its own."""
    assert len(CASES) >= 500


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_without_a_power_cut_the_right_records_are_left(command: Command) -> None:
    disk = new_disk()

    report = maintain(disk, command.work())

    assert not report.is_failed
    assert contents(disk) == command.expected


@pytest.mark.parametrize(("command", "step"), CHOSEN, ids=[f"{c.name}-{step}" for c, step in CHOSEN])
def test_run_again_after_a_power_cut_it_leaves_what_one_run_leaves(command: Command, step: int) -> None:
    disk = new_disk()
    disk.crash_at(step)
    with pytest.raises(PowerCut):
        maintain(disk, command.work())

    for found in disk.crash(STATES_OF_A_STEP):
        report = maintain(found, command.work())

        assert not report.is_failed
        assert contents(found) == command.expected


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
@pytest.mark.parametrize(("command", "step"), CHOSEN, ids=[f"{c.name}-{step}" for c, step in CHOSEN])
def test_run_again_after_a_refusal_it_leaves_what_one_run_leaves(
    command: Command, step: int, number: int
) -> None:
    disk = new_disk()
    disk.fail_at(step, number)
    with suppress(StratalogError):
        maintain(disk, command.work())

    report = maintain(disk, command.work())

    assert not report.is_failed
    assert contents(disk) == command.expected


@pytest.mark.parametrize(("command", "step"), CHOSEN, ids=[f"{c.name}-{step}" for c, step in CHOSEN])
def test_a_broker_that_starts_after_a_power_cut_has_every_record_that_stays(
    command: Command, step: int
) -> None:
    """As a manager that recovers what it finds, without the command being run again."""
    disk = new_disk()
    disk.crash_at(step)
    with pytest.raises(PowerCut):
        maintain(disk, command.work())

    for found in disk.crash(STATES_OF_A_STEP):
        manager = manager_on(found)
        manager.startup()
        for log in manager.all_logs():
            there = {(record.offset, record.value) for record in read_all(log)}
            assert there >= set(command.expected[log.topic_partition.topic])
            assert log.log_end_offset == COUNT
        manager.shutdown()
