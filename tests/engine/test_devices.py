"""Physical devices, and how many readers each gets."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stratalog.engine.devices import (
    FAST_RATE,
    FAST_SIZE,
    SHORTEST_WINDOW_S,
    WINDOW_SIZE,
    ReaderCount,
    busy_ms,
    device_of,
)
from stratalog.files.disk import Disk


class LinuxDevices:
    """The files by which Linux describes block devices, as far as they are looked at."""

    def __init__(self, folder: Path) -> None:
        self.links = folder / "dev" / "block"
        self.links.mkdir(parents=True)
        self._block = folder / "block"

    def disk(self, name: str, number: str) -> Path:
        return self._add(self._block / name, number)

    def partition(self, disk: Path, name: str, number: str) -> Path:
        folder = self._add(disk / name, number)
        (folder / "partition").write_text("1\n")
        return folder

    def volume(self, name: str, number: str, *below: Path) -> Path:
        folder = self._add(self._block / name, number)
        (folder / "slaves").mkdir()
        for other in below:
            (folder / "slaves" / other.name).symlink_to(other)
        return folder

    def _add(self, folder: Path, number: str) -> Path:
        folder.mkdir(parents=True)
        (folder / "dev").write_text(f"{number}\n")
        (folder / "stat").write_text("1 0 8 3 0 0 0 0 0 420 3 0 0 0 0 0 0\n")
        (self.links / number).symlink_to(folder)
        return folder


@pytest.fixture
def here(tmp_path: Path) -> str:
    """The number of the device that the test's own folder is on, as Linux writes it."""
    number = tmp_path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def test_a_partition_of_a_disk_is_that_disk(tmp_path: Path, here: str) -> None:
    linux = LinuxDevices(tmp_path / "sys")
    linux.partition(linux.disk("sdq", "8:4000"), "sdq1", here)

    found = device_of(Disk(), tmp_path, system=linux.links)

    assert (found.name, found.number) == ("sdq", os.makedev(8, 4000))


def test_a_volume_on_one_disk_is_that_disk(tmp_path: Path, here: str) -> None:
    linux = LinuxDevices(tmp_path / "sys")
    disk = linux.disk("nvme7n1", "259:4000")
    linux.volume("dm-9", here, linux.partition(disk, "nvme7n1p2", "259:4001"))

    assert device_of(Disk(), tmp_path, system=linux.links).name == "nvme7n1"


def test_a_volume_over_two_disks_is_a_device_of_its_own(tmp_path: Path, here: str) -> None:
    linux = LinuxDevices(tmp_path / "sys")
    linux.volume("md0", here, linux.disk("sdq", "8:4000"), linux.disk("sdr", "8:4001"))

    assert device_of(Disk(), tmp_path, system=linux.links).name == "md0"


def test_a_file_system_without_a_device_is_called_by_its_number(tmp_path: Path, here: str) -> None:
    found = device_of(Disk(), tmp_path, system=tmp_path / "nothing")

    assert (found.name, found.statistics, busy_ms(found)) == (here, None, None)


def test_how_long_a_device_was_busy_is_the_tenth_number_of_its_statistics(tmp_path: Path, here: str) -> None:
    linux = LinuxDevices(tmp_path / "sys")
    linux.disk("sdq", here)

    assert busy_ms(device_of(Disk(), tmp_path, system=linux.links)) == 420


def settle(speed: Callable[[int], float], windows: int = 40) -> list[int]:
    """How many readers there were in each window on a device with this speed."""
    count, seen = ReaderCount(), []
    for _ in range(windows):
        seen.append(count.count)
        count.measured(speed(count.count))
    return seen


def test_readers_are_added_while_each_brings_more_than_a_tenth() -> None:
    seen = settle(lambda readers: 100.0 * min(readers, 4))

    assert seen[:6] == [1, 2, 3, 4, 5, 4]


def test_a_disk_that_gets_slower_by_a_second_reader_keeps_one() -> None:
    seen = settle(lambda readers: 100.0 / readers)

    assert seen[:3] == [1, 2, 1]
    assert seen.count(1) > len(seen) - 4


def test_a_tenth_more_is_not_enough() -> None:
    assert settle(lambda readers: 110.0 if readers > 1 else 100.0)[:4] == [1, 2, 1, 1]


def test_a_machine_that_was_busy_at_first_is_tried_again() -> None:
    count = ReaderCount()
    for _ in range(3):
        count.measured(100.0)

    for _ in range(100):
        count.measured(100.0 * min(count.count, 2))

    assert count.count == 2


def test_bytes_that_come_from_memory_get_a_reader_for_each_core_at_once() -> None:
    count = ReaderCount(cores=8)
    assert count.is_enough(FAST_SIZE, 0.005)

    count.measured(2 * FAST_RATE)

    assert count.count == 8
    assert not count.is_enough(FAST_SIZE, 0.005)


def test_a_fast_device_gets_no_reader_without_a_core_for_it() -> None:
    count = ReaderCount(cores=2)
    for _ in range(10):
        count.measured(2 * FAST_RATE)

    assert count.count == 2


def test_a_slow_device_is_measured_for_longer() -> None:
    count = ReaderCount(cores=8)

    assert not count.is_enough(FAST_SIZE, FAST_SIZE / FAST_RATE * 1.01)
    assert count.is_enough(WINDOW_SIZE, SHORTEST_WINDOW_S)


def test_no_device_gets_readers_without_end() -> None:
    count = ReaderCount(most=3)
    for _ in range(1000):
        count.measured(10.0**count.count)

    assert count.count == 3
