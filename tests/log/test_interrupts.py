"""Ctrl-C inside a roll, at any line and any step of the disk: the interrupt comes out, the log goes on.

The same at any line of a cleaning: its threads end."""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import stratalog
from stratalog.files.disk import Path as DiskPath
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.cleaning import clean, newest_first, output, parts, runs
from stratalog.log.log import Log
from stratalog.log.roller import Roller
from stratalog.segment.segment import LogSegment
from tests import profile
from tests.log.cleaning.dirty import Dirty
from tests.log.cleaning.small_pieces import SmallPieces
from tests.log.model import DIRECTORY, NOW, Machine, batch, produced, read_all

SOURCES = str(Path(stratalog.__file__).parent)


class InterruptingDisk(SimulatedDisk):
    """Which is interrupted once, just before a step is done or just after."""

    interrupt_at = 0
    comes_after = False

    def _count(self, action: str, path: DiskPath) -> None:
        super()._count(action, path)
        if not self.comes_after:
            self._interrupt()

    def _cut_power_if_due(self) -> None:
        super()._cut_power_if_due()
        if self.comes_after:
            self._interrupt()

    def _interrupt(self) -> None:
        if self.steps == self.interrupt_at:
            self.interrupt_at = 0
            raise KeyboardInterrupt


def filled() -> tuple[InterruptingDisk, Machine, Log]:
    disk = InterruptingDisk()
    disk.make_directories(DIRECTORY)
    machine = Machine(disk, segment_index_bytes=240, index_interval_bytes=1)
    log = machine.open()
    for number in range(3):
        log.append_as_leader(produced(1, number, b"%d" % number, timestamp=NOW + number), leader_epoch=0)
    return disk, machine, log


def check_goes_on(machine: Machine, log: Log, next_sequence: int = 3) -> None:
    """Appends and rolls as ever; after a close everything is found."""
    assert log.failure is None
    log.append_as_leader(produced(1, next_sequence, b"more", timestamp=NOW + 9), leader_epoch=0)
    log.roll()
    log.append_as_leader(batch(b"last", timestamp=NOW + 10), leader_epoch=0)
    expected = read_all(log)
    assert [record.offset for record in expected] == list(range(next_sequence + 2))
    assert log.fetch_offset_by_timestamp(NOW + 1) == (NOW + 1, 1, 0)
    again = machine.reopen(log)
    assert read_all(again) == expected
    assert again.producers.producers[1].last_sequence == next_sequence
    assert again.fetch_offset_by_timestamp(NOW + 1) == (NOW + 1, 1, 0)
    again.close()


def steps_of_a_roll() -> int:
    disk, _, log = filled()
    before = disk.steps
    log.roll()
    return disk.steps - before


@pytest.mark.parametrize("comes_after", [False, True])
@pytest.mark.parametrize("step", range(1, steps_of_a_roll() + 1))
def test_an_interrupt_at_a_step_of_a_roll_does_not_fail_the_next_one(step: int, comes_after: bool) -> None:
    disk, machine, log = filled()
    disk.interrupt_at, disk.comes_after = disk.steps + step, comes_after

    with pytest.raises(KeyboardInterrupt):
        log.roll()

    check_goes_on(machine, log)


@pytest.mark.parametrize("comes_after", [False, True])
def test_an_interrupt_while_an_empty_segment_is_rolled_again_does_not_fail_the_next_one(
    comes_after: bool,
) -> None:
    step = 0
    while True:
        step += 1
        disk, machine, log = filled()
        log = machine.reopen(log, embedded=False)  # the only copy keeps an empty segment
        log.roll()
        log.flush(force=True)
        disk.interrupt_at, disk.comes_after = disk.steps + step, comes_after
        try:
            log.roll()
        except KeyboardInterrupt:
            check_goes_on(machine, log)
        else:
            disk.interrupt_at = 0
            break
    assert step > 5


@pytest.mark.parametrize("comes_after", [False, True])
def test_an_interrupt_in_the_roll_of_an_append_leaves_the_record_out_and_the_log_well(
    comes_after: bool,
) -> None:
    for step in range(1, steps_of_a_roll() + 1):
        disk, machine, log = filled()
        log.config = Machine(internal_segment_bytes=1 + log.size).config
        disk.interrupt_at, disk.comes_after = disk.steps + step, comes_after

        with pytest.raises(KeyboardInterrupt):
            log.append_as_leader(produced(1, 3, b"not in"), leader_epoch=0)

        assert log.log_end_offset == 3
        check_goes_on(machine, log)


@pytest.mark.parametrize("has_producer", [False, True])
def test_an_interrupt_in_a_roll_for_a_full_index_leaves_the_set_out_and_the_log_well(
    monkeypatch: pytest.MonkeyPatch, has_producer: bool
) -> None:
    _, machine, log = filled()
    make = partial(produced, 1) if has_producer else lambda _, value, **named: batch(value, **named)
    # More batches than the time index has room for, each with a larger timestamp.
    several = b"".join(
        make(number, b"%d" % number, timestamp=NOW + number, base_offset=number) for number in range(3, 23)
    )
    roll = Roller.roll

    def interrupted(*_: Any) -> LogSegment:
        monkeypatch.setattr(Roller, "roll", roll)
        raise KeyboardInterrupt

    monkeypatch.setattr(Roller, "roll", interrupted)

    with pytest.raises(KeyboardInterrupt):
        log.append_as_follower(several, leader_epoch=0)

    assert log.log_end_offset == 3
    check_goes_on(machine, log)


def interrupted_at_line(
    line: int, action: Callable[[], object], sources: str | tuple[str, ...] = SOURCES
) -> bool:
    """Run it, with an interrupt after `line` lines of our own code; False if it has fewer."""
    count = 0
    inside: set[tuple[FrameType, int]] = set()  # the `with` blocks that have begun

    def is_end_of_with(frame: FrameType) -> bool:
        """Whether the block of a `with` has ended and is left next. No signal is handled in between."""
        if not linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with "):
            return False
        inside.symmetric_difference_update({(frame, frame.f_lineno)})
        return (frame, frame.f_lineno) not in inside

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(sources):
            return None
        if event == "line" and not is_end_of_with(frame):
            count += 1
            if count == line:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interrupt_at_a_line_of_a_roll_does_not_fail_the_next_one() -> None:
    every = 450 // profile.examples(450, quick=30)
    line = 1
    while True:
        _, machine, log = filled()
        if not interrupted_at_line(line, log.roll):
            break
        check_goes_on(machine, log)
        line += every

    assert line > 100


def cleaning_threads() -> list[str]:
    return [
        thread.name
        for thread in threading.enumerate()
        if thread.name in ("stratalog-runs", "stratalog-cleaned") and thread.is_alive()
    ]


@pytest.mark.parametrize("keys", [1000, 7])
def test_an_interrupt_at_a_line_of_a_cleaning_leaves_no_thread(
    keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few keys the map is full while runs are read ahead, which are then let go."""
    sources = tuple(str(module.__file__) for module in (clean, newest_first, output, parts, runs))
    pieces = SmallPieces(monkeypatch)
    every = 500 // profile.examples(500, quick=60)
    line = 1
    while True:
        dirty = Dirty()
        for number in range(12):
            dirty.put(*[(b"%d" % (number + i), b"%d" % number * 100) for i in range(3)])
        dirty.roll()
        was_interrupted = interrupted_at_line(line, lambda: dirty.clean(keys=keys), sources)  # noqa: B023
        assert not cleaning_threads(), line
        if not was_interrupted:
            break
        dirty.clean()  # as if nothing had been
        assert dirty.offsets == [*range(0, 33, 3), 33, 34, 35]
        line += every

    assert line > 200
    pieces.check_used()
