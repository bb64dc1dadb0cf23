"""Records that are given up: in which order files and marks change. Crashes: `test_truncate_crash.py`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stratalog.errors import OffsetOutOfRangeError
from stratalog.files.names import TopicPartition
from stratalog.log.checkpoint_file import PartitionOffsets
from stratalog.log.cutter import Cutter
from stratalog.log.kept_marks import KeptMarks
from stratalog.log.log import Log
from tests.log.model import ORDERS, batch
from tests.log.watched import WatchedDisk, watched


class Kept:
    """A checkpoint in memory, which tells the disk's book when it is written."""

    def __init__(self, disk: WatchedDisk, name: str, offset: int) -> None:
        self.offsets: dict[TopicPartition, int] = {ORDERS: offset}
        self._disk, self._name = disk, name

    def update(self, change: Callable[[PartitionOffsets], PartitionOffsets]) -> bool:
        self.offsets = {**change(self.offsets)}
        self._disk.done.append(f"write {self._name} {self.offsets.get(ORDERS)}/")
        return True


def three_segments() -> tuple[WatchedDisk, Log, Cutter]:
    """Segments 0, 1 and 2 with a record each, all of it flushed."""
    disk, machine = watched(retention_bytes=1)
    log = machine.open()
    for number in range(3):
        if number:
            log.roll()
        log.append_as_leader(batch(b"a"), leader_epoch=0)
    log.flush()
    kept = KeptMarks(ORDERS, starts=Kept(disk, "start", 0), ends=[Kept(disk, "point", 3)])
    cutter = Cutter(log._parts, log._flusher, log._roller, kept)
    disk.done.clear()
    return disk, log, cutter


def test_truncation_lowers_the_marks_first_and_goes_from_the_last_segment_down() -> None:
    disk, log, cutter = three_segments()

    assert cutter.truncate_to(0)

    first, second, third = (f"{base:020d}.log" for base in range(3))
    assert disk.of_logs() == [
        "write point 0/",
        f"rename {third} to {third}.deleted",
        "sync orders-0/",
        f"rename {second} to {second}.deleted",
        "sync orders-0/",
        f"sync {first}",
        "sync orders-0/",
        "write start None/",
        "write point 0/",
    ]
    assert (log.log_end_offset, log.recovery_point, cutter.cuts_count) == (0, 0, 1)


def test_truncation_at_the_end_changes_nothing() -> None:
    disk, log, cutter = three_segments()

    assert not cutter.truncate_to(3)
    assert (disk.of_logs(), log.recovery_point, cutter.cuts_count) == ([], 3, 0)


def test_retention_writes_the_start_down_before_it_renames_a_file() -> None:
    disk, log, cutter = three_segments()

    gone = cutter.delete_old_segments()

    first, second = (f"{base:020d}.log" for base in range(2))
    assert len(gone) == 2
    assert disk.of_logs() == [
        "write start 2/",
        f"rename {first} to {first}.deleted",
        f"rename {second} to {second}.deleted",
        "sync orders-0/",
    ]
    assert (log.log_start_offset, log.recovery_point, cutter.cuts_count) == (2, 3, 1)


def test_the_start_is_kept_until_a_name_on_the_device_says_it() -> None:
    _, _, cutter = three_segments()

    cutter.raise_start(2)
    before = cutter.start_to_keep
    cutter.delete_old_segments()

    assert (before, cutter.start_to_keep) == (2, None)


def test_the_start_does_not_lift_the_recovery_point() -> None:
    _, log, cutter = three_segments()
    log._flusher.lower(0)

    cutter.raise_start(2)

    assert (log.log_start_offset, log.recovery_point) == (2, 0)


def test_the_start_does_not_pass_the_high_watermark() -> None:
    _, log, cutter = three_segments()

    with pytest.raises(OffsetOutOfRangeError):
        cutter.raise_start(4)
    assert log.log_start_offset == 0


def test_an_emptied_log_says_where_it_goes_on_before_it_has_a_segment_again() -> None:
    disk, log, cutter = three_segments()

    cutter.truncate_fully_and_start_at(7)

    steps = disk.of_logs()
    assert steps.index("write start 7/") < steps.index("create 00000000000000000007.log")
    assert (log.log_start_offset, log.log_end_offset, log.segments.base_offsets) == (7, 7, (7,))
