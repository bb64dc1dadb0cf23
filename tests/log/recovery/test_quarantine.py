"""Bytes that are cut off can be restored: bit for bit, listed once, and safe before the cut."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from stratalog.errors import DiskError, QuarantineError, QuarantineFullError
from stratalog.files.disk import Disk
from stratalog.files.names import QUARANTINE_MANIFEST, QUARANTINE_PREFIX
from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.log.recovery.manifest import ManifestEntry
from stratalog.log.recovery.quarantine import KeepingRun, Quarantine
from stratalog.log.recovery.zero_runs import ZERO_BLOCK_SIZE
from tests.log.recovery.keeping import BYTES, LOG, NAME, ROOT, keep, lines, made, quarantine


def move(disk: Disk) -> ManifestEntry:
    return quarantine(disk).keep_file(LOG, partition="t-0", file=NAME, reason="after damage")


def restored(disk: SimulatedDisk, kept: ManifestEntry) -> bytes:
    disk.delete("/restored")
    quarantine(disk).restore(kept, "/restored")
    return disk.contents()["/restored"]


def test_a_range_is_a_file_at_the_root_and_a_line_of_the_manifest() -> None:
    disk = made()

    keep(disk)

    name = f"stratalog-quarantine-t-0-{NAME}-1000"
    assert disk.contents()[f"{ROOT}/{name}"] == BYTES[1000:]
    assert disk.contents()[LOG] == BYTES
    assert lines(disk) == [
        {
            "directory": ROOT,
            "partition": "t-0",
            "file": NAME,
            "position": 1000,
            "size": 4000,
            "reason": "a wrong checksum",
            "is_whole": False,
            "parts": [{"file": name, "at": 0, "size": 4000}],
            "sha256": hashlib.sha256(BYTES[1000:]).hexdigest(),
            "inode": 0,
            "time_ms": 77,
        }
    ]


ZEROS = bytes(ZERO_BLOCK_SIZE)
RANGES = {
    "nothing": b"",
    "one byte": b"x",
    "a block of zeros": ZEROS,
    "zeros alone": ZEROS * 300,
    "zeros that fill no block": b"x" + bytes(ZERO_BLOCK_SIZE - 2) + b"y",
    "bytes, zeros, bytes": BYTES + bytes(100_000) + BYTES,
    "zeros, bytes": ZEROS * 3 + BYTES,
    "bytes, zeros to the end": BYTES + bytes(50_001),
    "more than a chunk": random.Random(1).randbytes(600_000)
    + bytes(1 << 20)
    + random.Random(2).randbytes(600_000),
    "zeros over the end of a chunk": BYTES + bytes((2 << 20) + 5) + BYTES,
    "blocks by turns": (b"x" * ZERO_BLOCK_SIZE + ZEROS) * 100,
    "too many turns for a line": (b"x" * ZERO_BLOCK_SIZE + ZEROS) * 2100,
}


@pytest.mark.parametrize("data", RANGES.values(), ids=RANGES)
def test_what_was_kept_comes_back_bit_for_bit(data: bytes) -> None:
    disk = made(b"good" + data)
    kept = keep(disk, 4, len(data))
    disk.truncate(LOG, 4)

    (entry,) = quarantine(disk).entries()
    assert entry == kept
    assert restored(disk, entry) == data


def test_a_whole_file_is_moved_and_comes_back() -> None:
    disk = made()

    kept = move(disk)

    assert disk.contents().keys() == {
        f"{ROOT}/{QUARANTINE_PREFIX}t-0-{NAME}-0",
        f"{ROOT}/{QUARANTINE_MANIFEST}",
    }
    assert kept.is_whole
    assert quarantine(disk).entries() == (kept,)
    assert restored(disk, kept) == BYTES


def test_keeping_the_same_range_again_adds_nothing() -> None:
    disk = made()
    first = keep(disk)
    before = disk.contents()

    assert keep(disk) == first
    assert disk.contents() == before


def test_another_cut_at_the_same_place_has_another_file() -> None:
    disk = made()
    first = keep(disk)
    disk.write_at(LOG, b"other bytes", 2000)
    second = keep(disk)

    assert second.files == (f"{QUARANTINE_PREFIX}t-0-{NAME}-1000-2",)
    assert quarantine(disk).entries() == (first, second)
    assert restored(disk, first) == BYTES[1000:]
    assert restored(disk, second) == disk.contents()[LOG][1000:]


@pytest.mark.parametrize("act", [keep, move])
def test_after_a_power_cut_at_any_step_the_bytes_are_somewhere_and_told_once(
    act: Callable[[Disk], ManifestEntry],
) -> None:
    whole = made()
    act(whole)
    for step in range(1, whole.steps + 1):
        disk = made()
        disk.crash_at(step)
        with pytest.raises(PowerCut):
            act(disk)
        for found in disk.crash():
            contents = found.contents()
            if LOG in contents:
                assert contents[LOG] == BYTES
                act(found)
            (kept,) = quarantine(found).entries()
            assert restored(found, kept) == (BYTES if kept.is_whole else BYTES[1000:])
            assert len([name for name in found.contents() if QUARANTINE_PREFIX in name]) == 1


def test_what_was_kept_survives_the_power_cut_behind_it() -> None:
    disk = made()
    keep(disk)
    disk.truncate(LOG, 1000)

    for found in disk.crash():
        (kept,) = quarantine(found).entries()
        assert restored(found, kept) == BYTES[1000:]


def test_no_room_is_said_before_anything_is_written() -> None:
    disk = made()
    disk.room = 3999

    with pytest.raises(QuarantineFullError, match="--no-quarantine") as refusal:
        keep(disk)
    assert (refusal.value.needed, refusal.value.free) == (4000, 3999)
    assert disk.contents() == {LOG: BYTES}
    with pytest.raises(QuarantineFullError):
        quarantine(disk).require_room([(LOG, 1000, 4000)])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("act", [keep, move])
def test_a_refusal_at_any_step_loses_nothing_and_the_next_run_succeeds(
    number: int, act: Callable[[Disk], ManifestEntry]
) -> None:
    whole = made()
    act(whole)
    for step in range(1, whole.steps + 1):
        disk = made()
        disk.fail_at(step, number)
        with pytest.raises((DiskError, QuarantineFullError)):
            act(disk)
        if LOG in disk.contents():
            act(disk)
        (kept,) = quarantine(disk).entries()
        assert restored(disk, kept) == (BYTES if kept.is_whole else BYTES[1000:])


def test_a_file_that_was_changed_in_quarantine_is_not_given_back_as_if_it_were_right() -> None:
    disk = made()
    kept = keep(disk)
    disk.write_at(f"{ROOT}/{kept.files[0]}", b"!", 17)

    with pytest.raises(QuarantineError, match="SHA-256"):
        restored(disk, kept)


def test_an_entry_without_its_file_is_not_listed() -> None:
    disk = made()
    kept = keep(disk)
    disk.truncate(f"{ROOT}/{kept.files[0]}", 3999)

    assert quarantine(disk).entries() == ()
    with pytest.raises(QuarantineError, match="ends before"):
        restored(disk, kept)


@pytest.mark.parametrize(
    "partition", ["t 1-0", "новости-7", 'q"uote\\-0', "line\nbreak-0", "x" * 249 + "-12345", "ä" * 120 + "-0"]
)
def test_odd_names_of_partitions_come_back(tmp_path: Path, partition: str) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    log = directory / NAME
    log.write_bytes(BYTES)
    place = Quarantine(Disk(), tmp_path)

    place.keep_range(log, partition=partition, file=NAME, position=10, size=90, reason="odd\nreason")
    place.keep_file(log, partition=partition, file=NAME, reason="whole")

    part, whole = Quarantine(Disk(), tmp_path).entries()
    assert part.partition == whole.partition == partition
    place.restore(part, tmp_path / "part")
    place.restore(whole, tmp_path / "whole")
    assert (tmp_path / "part").read_bytes() == BYTES[10:100]
    assert (tmp_path / "whole").read_bytes() == BYTES
    assert all(path.is_file() for path in tmp_path.iterdir() if path != directory)


def test_files_in_quarantine_belong_to_the_owner_of_the_directory(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / NAME).write_bytes(BYTES)
    os.chown(tmp_path, 1234, 4321)

    place = Quarantine(Disk(), tmp_path)
    place.keep_range(tmp_path / "t-0" / NAME, partition="t-0", file=NAME, position=0, size=9, reason="")
    for path in tmp_path.iterdir():
        if path.is_file():
            assert (path.stat().st_uid, path.stat().st_gid) == (1234, 4321)


def test_a_quarantine_on_another_device_gets_a_copy(tmp_path: Path) -> None:
    device = tmp_path.stat().st_dev
    for other in map(Path, ("/dev/shm", "/var/tmp")):
        if other.is_dir() and other.stat().st_dev != device:
            break
    else:
        pytest.skip("there is no second file system to try")
    log = tmp_path / NAME
    log.write_bytes(BYTES)
    target = other / f"stratalog-test-{os.getpid()}"
    target.mkdir()
    try:
        place = Quarantine(Disk(), target)
        kept = place.keep_file(log, partition="t-0", file=NAME, reason="whole")
        place.restore(kept, tmp_path / "restored")
        assert (tmp_path / "restored").read_bytes() == BYTES
        assert kept.is_whole
        assert not log.exists()
    finally:
        for path in target.iterdir():
            path.unlink()
        target.rmdir()


def forged(path: Path, file: object) -> str:
    """A line that says that a segment was about to be moved to a file of this name."""
    status = path.stat()
    fields = {"partition": "t-0", "file": NAME, "position": 0, "size": status.st_size, "reason": ""}
    part = {"file": file, "at": 0, "size": status.st_size}
    more = {"is_whole": True, "parts": [part], "sha256": None, "inode": status.st_ino, "time_ms": 0}
    return json.dumps({**fields, **more}) + "\n"


@pytest.mark.parametrize("file", ["../victim", f"{QUARANTINE_PREFIX}/../../victim", 3, ["../victim"]])
def test_a_line_does_not_send_a_file_somewhere_else(log: Path, tmp_path: Path, file: object) -> None:
    (tmp_path / "victim").write_bytes(b"somebody's")
    root = log.parent.parent
    (root / QUARANTINE_MANIFEST).write_text(forged(log, file))

    kept = Quarantine(Disk(), root).keep_file(log, partition="t-0", file=NAME, reason="after damage")

    assert (tmp_path / "victim").read_bytes() == b"somebody's"
    assert (root / kept.files[0]).read_bytes() == BYTES


def test_a_file_in_quarantine_is_not_written_over(log: Path) -> None:
    """Its line is of this inode; since then the file was replaced by a copy of itself."""
    root = log.parent.parent
    (root / QUARANTINE_MANIFEST).write_text(forged(log, f"{QUARANTINE_PREFIX}earlier"))
    (root / f"{QUARANTINE_PREFIX}earlier").write_bytes(b"kept before")

    kept = Quarantine(Disk(), root).keep_file(log, partition="t-0", file=NAME, reason="after damage")

    assert (root / f"{QUARANTINE_PREFIX}earlier").read_bytes() == b"kept before"
    assert (root / kept.files[0]).read_bytes() == BYTES


def test_a_file_that_a_crash_left_both_names_loses_the_old_one(log: Path) -> None:
    root = log.parent.parent
    (root / QUARANTINE_MANIFEST).write_text(forged(log, f"{QUARANTINE_PREFIX}moved"))
    os.link(log, root / f"{QUARANTINE_PREFIX}moved")

    Quarantine(Disk(), root).keep_file(log, partition="t-0", file=NAME, reason="after damage")

    assert not log.exists()
    assert (root / f"{QUARANTINE_PREFIX}moved").read_bytes() == BYTES


def keep_in_run(disk: Disk, run: str, *known: str, file: str = NAME) -> tuple[ManifestEntry, list[str]]:
    """Keep the end of a log in a run that continues the `known` ones; and what it was told about it."""
    told: list[str] = []
    found = quarantine(disk)
    found.begin_run(ROOT, KeepingRun(run, frozenset({run, *known}), told.append))
    kept = found.keep_range(LOG, partition="t-0", file=file, position=1000, size=4000, reason="why")
    return kept, told


def test_a_line_has_the_run_that_kept_the_bytes() -> None:
    disk = made()

    kept, told = keep_in_run(disk, "one")

    assert (kept.run, told) == ("one", [ROOT])
    assert quarantine(disk).lines_of_runs(["one"]) == [(kept, True)]
    assert quarantine(disk).lines_of_runs(["two"]) == []


def test_a_run_that_continues_another_writes_no_second_line() -> None:
    disk = made()
    kept, _ = keep_in_run(disk, "one")

    assert keep_in_run(disk, "two", "one") == (kept, [ROOT])
    assert len(lines(disk)) == 1


def test_bytes_that_an_ended_run_has_kept_get_a_line_but_no_second_copy() -> None:
    disk = made()
    one, _ = keep_in_run(disk, "one")
    files = {*disk.contents()}

    two, told = keep_in_run(disk, "two")

    assert (two.run, two.parts, told) == ("two", one.parts, [ROOT])
    assert keep_in_run(disk, "three", "two")[0] == two
    assert {*disk.contents()} == files
    assert len(lines(disk)) == 2
    assert quarantine(disk).entries() == (two,)  # listed once
    quarantine(disk).replace(two, None, reason="purged")
    assert [entry for entry in quarantine(disk).entries() if entry.size] == []
    assert quarantine(disk).lines_of_runs(["two"])[0] == (two, False)


def test_a_file_that_is_moved_gets_a_line_of_the_run() -> None:
    disk = made()
    disk.sync(LOG)
    stale = move(disk)
    disk.rename(f"{ROOT}/{stale.files[0]}", LOG)  # as after a kill between the line and the move
    told: list[str] = []
    found = quarantine(disk)
    found.begin_run(ROOT, KeepingRun("two", frozenset({"two"}), told.append))

    kept = found.keep_file(LOG, partition="t-0", file=NAME, reason="after damage")

    assert (kept.run, kept.files, told) == ("two", stale.files, [ROOT])
    assert restored(disk, kept) == BYTES


def test_only_the_bytes_of_logs_belong_to_a_run() -> None:
    kept, told = keep_in_run(made(), "one", file="partition.metadata")

    assert (kept.run, told) == ("", [])
