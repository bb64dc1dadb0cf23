"""What a plan needs on a device, before it is done: new files first, and what a cut gives back."""

from __future__ import annotations

import errno

import pytest

from stratalog.directory.recovery.room import Room
from stratalog.errors import DiskError
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
            Room("/data", free).take(steps, OCCUPIED, keeps_here=keeps_here)
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
    room = Room("/data", 1024, block_size=512)
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
    room = Room("/data", 10 + 1)

    room.take([keep, Truncate(file=LOG, size=200, why=WHY)], {LOG.name: 10}, keeps_here=True)

    room.settle()


def test_a_full_disk_is_told_with_both_sizes_and_what_to_do() -> None:
    with pytest.raises(DiskError, match=r"100 bytes are to be written .* 99 are free.*--work-dir") as told:
        Room("/data", 99).take([write(100)], OCCUPIED, keeps_here=True)

    assert told.value.errno == errno.ENOSPC


def test_with_a_work_directory_files_are_written_over_the_old_ones_and_must_fit_at_the_end() -> None:
    steps = write(60, over=file("x", 60)), write(50), Truncate(file=LOG, size=940, why=WHY)

    room = Room("/data", 0, has_work_dir=True)
    room.take(steps, OCCUPIED, keeps_here=False)
    room.settle()

    room = Room("/data", 0, has_work_dir=True)
    room.take(steps[:2], OCCUPIED, keeps_here=False)
    with pytest.raises(DiskError, match=r"do not free enough: 50 more bytes are needed\. Free some space\.$"):
        room.settle()


def test_a_clean_shutdown_file_does_not_fit_on_a_full_disk_either() -> None:
    for has_work_dir in (False, True):
        with pytest.raises(DiskError, match="1 bytes are to be written"):
            Room("/data", 0, has_work_dir=has_work_dir).settle()
