"""What a plan needs on a device, before it is done: new files first, and what a cut gives back."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from stratalog.directory.recovery.room import FreeSpace, Room
from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from stratalog.files.entries import NO_FILE
from stratalog.log.recovery.facts import FileFact
from stratalog.log.recovery.steps import (
    CopyRanges,
    Delete,
    KeepRange,
    Rename,
    Step,
    Sync,
    Truncate,
    WriteFile,
)

WHY = "for the test"


def file(name: str, size: int) -> FileFact:
    return FileFact(name, size, NO_FILE, 0)


LOG, INDEX = file(f"{0:020d}.log", 1000), file(f"{0:020d}.index", 1000)
OCCUPIED = {LOG.name: 1000, INDEX.name: 10, "x": 60, f"{LOG.name}.deleted": 800}  # the index is sparse


def needs(*steps: Step, keeps_here: bool = True) -> int:
    """The least room with which the steps fit."""

    def fits(free: int) -> bool:
        try:
            Room("/data", FreeSpace(free)).take(steps, OCCUPIED, keeps_here=keeps_here)
        except DiskError:
            return False
        return True

    return next(free for free in range(5000) if fits(free))


def write(size: int, over: FileFact | None = None) -> WriteFile:
    return WriteFile(name="x", data=bytes(size), file=over, why=WHY)


@pytest.mark.parametrize(
    ("steps", "room"),
    [
        ((), 0),
        ((write(100),), 100),
        ((write(100), write(50)), 150),
        ((CopyRanges(file=LOG, to="x", ranges=((0, 300), (500, 7)), why=WHY),), 307),
        ((Sync(name="x"), Rename(file=LOG, to="x", why=WHY)), 0),
    ],
)
def test_new_files_need_their_sizes(steps: tuple[Step, ...], room: int) -> None:
    assert needs(*steps) == room


def test_a_file_is_written_beside_the_one_that_it_replaces_which_then_gives_its_bytes_back() -> None:
    assert needs(write(100, over=file("x", 60)), write(100)) == 100 + 100 - 60


@pytest.mark.parametrize(
    "cut", [Truncate(file=LOG, size=200, why=WHY), Delete(file=file(f"{0:020d}.log.deleted", 800), why=WHY)]
)
def test_a_cut_of_a_log_gives_its_bytes_back(cut: Step) -> None:
    assert needs(cut, write(900)) == 100
    assert needs(write(900), cut) == 900  # which is in time only for what comes after it


@pytest.mark.parametrize("cut", [Truncate(file=INDEX, size=0, why=WHY), Delete(file=INDEX, why=WHY)])
def test_a_sparse_index_gives_back_only_what_it_occupies(cut: Step) -> None:
    assert needs(cut, write(900)) == 890


def test_files_occupy_whole_blocks() -> None:
    room = Room("/data", FreeSpace(1024), block_size=512)
    room.take([write(1), write(512)], OCCUPIED, keeps_here=True)

    with pytest.raises(DiskError):
        room.take([write(1)], OCCUPIED, keeps_here=True)


def test_what_is_kept_takes_room_only_on_its_own_device() -> None:
    keep = KeepRange(file=LOG, position=200, size=800, why=WHY)
    steps = (keep, Truncate(file=LOG, size=200, why=WHY), write(900))

    assert needs(*steps, keeps_here=True) == 900
    assert needs(*steps, keeps_here=False) == 100


def test_zeros_of_a_sparse_log_take_no_room_in_quarantine() -> None:
    keep = KeepRange(file=LOG, position=200, size=800, why=WHY)
    room = Room("/data", FreeSpace(10 + 1))

    room.take([keep, Truncate(file=LOG, size=200, why=WHY)], {LOG.name: 10}, keeps_here=True)

    room.settle()


def test_a_full_disk_is_told_with_both_sizes_and_what_to_do() -> None:
    with pytest.raises(DiskError, match=r"100 bytes are to be written .* 99 are free.*--work-dir") as told:
        Room("/data", FreeSpace(99)).take([write(100)], OCCUPIED, keeps_here=True)

    assert told.value.errno == errno.ENOSPC


def test_with_a_work_directory_files_are_written_over_the_old_ones_and_must_fit_at_the_end() -> None:
    steps = write(60, over=file("x", 60)), write(50), Truncate(file=LOG, size=940, why=WHY)

    room = Room("/data", FreeSpace(0), has_work_dir=True)
    room.take(steps, OCCUPIED, keeps_here=False)
    room.settle()

    room = Room("/data", FreeSpace(0), has_work_dir=True)
    room.take(steps[:2], OCCUPIED, keeps_here=False)
    with pytest.raises(DiskError, match=r"do not free enough: 50 more bytes are needed\. Free some space\.$"):
        room.settle()


def test_a_clean_shutdown_file_does_not_fit_on_a_full_disk_either() -> None:
    for has_work_dir in (False, True):
        with pytest.raises(DiskError, match="1 bytes are to be written"):
            Room("/data", FreeSpace(0), has_work_dir=has_work_dir).settle()


class DeviceDisk(Disk):
    """A disk with blocks of 512 bytes that cannot say how much is free below one path."""

    def __init__(self, bad: str = "") -> None:
        super().__init__()
        self._bad = bad

    def free_size(self, path: object) -> int:
        if path == self._bad:
            raise DiskError(str(path), "could not look at the file system", errno.EIO)
        return 2048

    def block_size(self, _path: object) -> int:
        return 512


def test_two_directories_on_one_device_each_had_all_its_room(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    spaces: dict[int, FreeSpace] = {}
    disk = DeviceDisk()
    rooms = [Room.find(disk, str(tmp_path / name), spaces, has_work_dir=False) for name in ("one", "two")]

    for room in rooms:
        assert room is not None
        room.take([write(600)], OCCUPIED, keeps_here=True)

    assert [space.size for space in spaces.values()] == [0]
    assert rooms[1] is not None
    with pytest.raises(DiskError, match="512 bytes are to be written"):
        rooms[1].settle()


def test_each_directory_needs_a_block_for_its_clean_shutdown_file() -> None:
    space = FreeSpace(512)
    Room("/one", space, block_size=512).settle()

    with pytest.raises(DiskError):
        Room("/two", space, block_size=512).settle()


def test_where_the_disk_cannot_say_what_is_free_nothing_is_foreseen(tmp_path: Path) -> None:
    disk = DeviceDisk(str(tmp_path))

    assert Room.find(disk, str(tmp_path), {}, has_work_dir=False) is None
    assert Room.find(disk, str(tmp_path / "gone"), {}, has_work_dir=False) is None


def test_a_kept_range_of_an_unknown_file_takes_its_whole_size() -> None:
    keep = KeepRange(file=LOG, position=200, size=800, why=WHY)
    room = Room("/data", FreeSpace(800))

    room.take([keep], {}, keeps_here=True)

    with pytest.raises(DiskError):
        room.settle()
