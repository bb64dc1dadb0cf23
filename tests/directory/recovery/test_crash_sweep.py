"""A log directory whose disk fails or loses its power at any step of recovering, using and closing it.

After each crash: the directory loads, no record is lost that was on the device, nothing damaged is served,
bytes that were cut off can be restored from quarantine, and a second recovery changes no byte. `sweeping.py`
has the directory and what must be found in it. All of it deep, a seeded twentieth in ci.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from stratalog.errors import StratalogError
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import PowerCut, SimulatedDisk
from tests import profile
from tests.manager.sweeping import ROOT, Start, Told, check, closed, damaged, killed, live, recover, steps_of

MARKER = f"{ROOT}/.kafka_cleanshutdown"
RECOVERY_POINTS = f"{ROOT}/recovery-point-offset-checkpoint"
Story = Callable[[SimulatedDisk, Told], None]
MOST = 6  # states for each step: with many files open there are hundreds, which differ little
PART = {profile.DEEP: 1, profile.CI: 20, profile.QUICK: 40}[profile.current()]


def recovered(disk: SimulatedDisk, _: Told) -> None:
    """As the command does it: a directory that fails has no clean-shutdown file."""
    report = recover(disk)
    if report.error is not None:
        assert MARKER not in disk.contents()


STORIES: dict[str, tuple[Callable[[], Start], Story]] = {
    "recovery": (damaged, recovered),
    "a manager's life": (closed, live),
    "a manager's life that begins with a recovery": (damaged, live),
}
SWEPT = ["recovery", "a manager's life"]  # the third is one after the other


def points(name: str) -> Iterator[tuple[int, SimulatedDisk, Told]]:
    """Each step of a story at which something is to happen, with a disk at its beginning."""
    start, story = STORIES[name]
    count = steps_of(start, story)
    for step in sorted(random.Random(name).sample(range(1, count + 1), -(-count // PART))):
        disk, told = start().disk()
        yield step, disk, told


@pytest.mark.parametrize("name", STORIES)
def test_without_a_failure_everything_is_there(name: str) -> None:
    start, story = STORIES[name]
    disk, told = start().disk()

    story(disk, told)
    assert MARKER in disk.contents()
    check(disk, told, start().cuts)


def states(name: str) -> Iterator[tuple[SimulatedDisk, Told]]:
    """The disks that may be found after a power cut at each step: kept, lost and torn."""
    _, story = STORIES[name]
    for step, disk, told in points(name):
        disk.crash_at(step)
        with pytest.raises(PowerCut):
            story(disk, told)
        yield from ((found, told) for found in disk.crash(MOST))


@pytest.mark.parametrize("name", SWEPT)
def test_a_power_cut_at_any_step_loses_nothing_that_was_synced(name: str) -> None:
    count = 0
    for disk, told in states(name):
        check(disk, told, STORIES[name][0]().cuts)
        count += 1
    if profile.current() == profile.DEEP:
        # With those of the refusals, two for each of 870 steps, more than 4,000 in all.
        assert count >= {"recovery": 700, "a manager's life": 2000}[name]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
@pytest.mark.parametrize("name", SWEPT)
def test_a_refusal_at_any_step_loses_nothing_that_was_synced(name: str, number: int) -> None:
    start, story = STORIES[name]
    count = 0
    for step, disk, told in points(name):
        disk.fail_at(step, number)
        with suppress(StratalogError):  # the process gives up; the next one finds a disk that works
            story(disk, told)
        check(disk, told, start().cuts)
        count += 1
    if profile.current() == profile.DEEP:
        assert count >= {"recovery": 380, "a manager's life": 500}[name]


def test_what_a_recovery_accepted_survives_the_power_cut_behind_it() -> None:
    """The process was killed before it synced its last writes; then the power is cut too."""
    disk, told = killed(is_flushed=False)

    recovered(disk, told)

    for each in told.values():
        each.synced_count = len(each.batches)
    for found in disk.crash():
        assert MARKER in found.contents()
        check(found, told)


def test_no_recovery_point_is_ahead_of_what_is_on_the_device() -> None:
    disk, told = killed(is_flushed=False)
    first = disk.steps + 1
    recovered(disk, told)
    steps = range(first, disk.steps + 1)

    vouched_for = set()
    for step in sorted({*random.Random(1).sample(steps, -(-len(steps) // PART)), steps[-1]}):
        disk, told = killed(is_flushed=False)
        disk.crash_at(step)
        with pytest.raises(PowerCut):
            recovered(disk, told)
        for found in disk.crash(MOST):
            points = checkpoint(found.contents()[RECOVERY_POINTS].decode())
            for key, each in told.items():
                each.synced_count = sum(one.last_offset < points[key] for one in each.batches)
            vouched_for |= points.items()
            check(found, told)
    assert len(vouched_for) > len(told), "of before, and of the recovery"


def checkpoint(text: str) -> dict[TopicPartition, int]:
    rows = (line.split() for line in text.splitlines()[2:])
    return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in rows}
