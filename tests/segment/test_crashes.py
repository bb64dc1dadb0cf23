"""A segment on a disk that fails, or loses its power, at every step of a history."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from stratalog.errors import CorruptIndexError, CorruptRecordError, DiskError
from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.segment.sanity import sanity_check
from stratalog.segment.scan import scan_segment
from stratalog.segment.segment import LogSegment
from tests.segment.making import ManualClock, append, config_of, records

FOLDER = "/log/topic-0"
LOG = f"{FOLDER}/00000000000000000000.log"
CONFIG = config_of(interval=100, index_bytes=200)


@dataclass
class Kept:
    """The promises to a caller so far."""

    appended: list[bytes] = field(default_factory=list)
    flushed: list[bytes] = field(default_factory=list)


def play(disk: SimulatedDisk, kept: Kept) -> None:
    """Append, flush, cut, append, roll; `kept` follows what has returned."""
    segment = LogSegment.create(disk, FOLDER, 0, CONFIG, ManualClock())
    for first in (0, 2, 4):
        put(segment, kept, first)
    segment.flush()
    disk.sync_directory(FOLDER)
    kept.flushed = list(kept.appended)
    put(segment, kept, 6)
    del kept.appended[3:], kept.flushed[3:]
    segment.truncate_to(3)
    for first in (3, 5, 7):
        put(segment, kept, first)
    segment.on_become_inactive()
    segment.flush()
    kept.flushed = list(kept.appended)
    segment.close()


def put(segment: LogSegment, kept: Kept, first: int) -> None:
    batches = [records(first, "x" * 80), records(first + 1, "y" * 40)]
    append(segment, *batches)
    kept.appended += batches


def new_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directories(FOLDER)
    disk.sync_everything()
    return disk


def steps() -> int:
    disk = new_disk()
    before = disk.steps
    play(disk, Kept())
    return disk.steps - before


def is_sound(disk: SimulatedDisk) -> bool:
    """Whether the indexes pass; nothing but our own finding may come of looking."""
    segment = LogSegment.open(disk, FOLDER, 0, CONFIG, ManualClock())
    try:
        sanity_check(segment.reader)
    except (CorruptIndexError, CorruptRecordError):
        return False
    return True


@pytest.mark.parametrize("step", range(1, steps() + 1))
def test_what_an_append_has_returned_is_there_after_a_failure(step: int) -> None:
    disk, kept = new_disk(), Kept()
    disk.fail_at(disk.steps + step)

    with pytest.raises(DiskError):
        play(disk, kept)

    if disk.exists(LOG):
        assert disk.contents()[LOG].startswith(b"".join(kept.appended))


@pytest.mark.parametrize("step", range(1, steps() + 1))
def test_what_a_flush_has_returned_is_there_after_a_power_cut(step: int) -> None:
    disk, kept = new_disk(), Kept()
    disk.crash_at(disk.steps + step)
    with pytest.raises(PowerCut):
        play(disk, kept)

    for found in disk.crash():
        if kept.flushed:
            assert found.contents()[LOG].startswith(b"".join(kept.flushed))
        if found.exists(LOG):
            scan = scan_segment(found, LOG, 0, index_interval_bytes=100)
            assert scan.valid_size >= sum(map(len, kept.flushed))
            assert found.contents()[LOG][: scan.valid_size].startswith(b"".join(kept.flushed))


@pytest.mark.parametrize("step", range(1, steps() + 1))
def test_indexes_that_pass_after_a_power_cut_find_what_was_flushed(step: int) -> None:
    disk, kept = new_disk(), Kept()
    disk.crash_at(disk.steps + step)
    with pytest.raises(PowerCut):
        play(disk, kept)

    for found in disk.crash():
        if not kept.flushed or not is_sound(found):
            continue
        segment = LogSegment.open(found, FOLDER, 0, CONFIG, ManualClock())
        position = 0
        for offset, batch in enumerate(kept.flushed):
            assert segment.reader.translate_offset(offset) == (offset, offset, position, len(batch))
            position += len(batch)
