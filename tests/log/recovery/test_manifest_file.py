"""The manifest file: lines are found by their origin, are on the device, and none uses another's name."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from stratalog.errors import QuarantineError, QuarantineFullError
from stratalog.files.disk import Disk
from stratalog.files.names import QUARANTINE_MANIFEST
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.recovery.manifest import KeptPart, ManifestEntry
from stratalog.log.recovery.manifest_file import ManifestFile
from stratalog.log.recovery.quarantine import Quarantine
from tests.log.recovery.keeping import BYTES, NAME, ROOT, keep, made, quarantine


def manifest_on(disk: SimulatedDisk) -> ManifestFile:
    return ManifestFile(disk, ROOT, "make room.")


def entry(
    partition: str = "t-0", position: int = 0, *, directory: str = ROOT, name: str = ""
) -> ManifestEntry:
    name = name or f"stratalog-quarantine-{partition}-{NAME}-{position}"
    return ManifestEntry(
        directory=directory,
        partition=partition,
        file=NAME,
        position=position,
        size=10,
        reason="for the test",
        is_whole=False,
        parts=(KeptPart(file=name, at=0, size=10),),
        sha256="00",
        inode=0,
        time_ms=77,
    )


def test_a_line_is_on_the_device_when_it_is_written() -> None:
    disk = made()
    manifest_on(disk).write(entry())

    for found in disk.crash():
        assert [*manifest_on(found).read()] == [entry()]


def test_lines_are_found_by_the_file_that_they_are_about() -> None:
    """One quarantine may serve several log directories, which have partitions of one name."""
    manifest = manifest_on(made())
    manifest.read()
    lines = [entry(), entry("u-0"), entry(position=5), entry(directory="/other")]
    for line in lines:
        manifest.write(line)

    assert manifest.lines_of(ROOT, "t-0", NAME) == [lines[0], lines[2]]
    assert manifest.lines_of("/other", "t-0", NAME) == [lines[3]]
    assert manifest.lines_of(ROOT, "t-0", "x.log") == []


def test_a_name_that_a_line_uses_is_not_given_again() -> None:
    manifest = manifest_on(made())

    names = []
    for _ in range(3):
        names.append(manifest.free_name("t-0", NAME, 7))
        manifest.write(entry(position=7, name=names[-1]))

    plain = f"stratalog-quarantine-t-0-{NAME}-7"
    assert names == [plain, f"{plain}-2", f"{plain}-3"]


def test_what_another_process_has_written_is_seen_when_it_is_read_again() -> None:
    disk = made()
    manifest = manifest_on(disk)
    assert [*manifest.read()] == []
    manifest_on(disk).write(entry())

    assert [*manifest.read()] == []
    assert [*manifest.read_again()] == [entry()]


def test_a_line_that_does_not_fit_is_told_and_half_of_it_counts_for_nothing() -> None:
    disk = made()
    manifest = manifest_on(disk)
    manifest.write(entry())
    disk.fail_at(disk.steps + 3, errno.ENOSPC)  # after two looks, the write: half of the line is there

    with pytest.raises(QuarantineFullError, match=r"make room\."):
        manifest.write(entry(position=5))

    assert [*manifest.read()] == [*manifest_on(disk).read()] == [entry()]
    manifest.write(entry(position=9))
    assert [*manifest_on(disk).read()] == [entry(), entry(position=9)]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_line_is_no_line_and_the_next_one_is_whole(cut: int) -> None:
    disk = made()
    first, second = keep(disk, 0, 10), keep(disk, 20, 10)
    path = f"{ROOT}/{QUARANTINE_MANIFEST}"
    whole = disk.contents()[path]
    disk.truncate(path, len(whole) - cut)

    kept = (first, second) if cut == 1 else (first,)  # without its line break alone, a line is whole
    assert quarantine(disk).entries() == kept
    third = keep(disk, 40, 10)
    assert quarantine(disk).entries() == (*kept, third)


def test_a_manifest_that_is_a_link_is_refused(log: Path, tmp_path: Path) -> None:
    root = log.parent.parent
    (tmp_path / "victim").write_bytes(b"somebody's")
    (root / QUARANTINE_MANIFEST).symlink_to(tmp_path / "victim")

    with pytest.raises(QuarantineError, match="symbolic link"):
        Quarantine(Disk(), root).keep_file(log, partition="t-0", file=NAME, reason="after damage")

    assert (tmp_path / "victim").read_bytes() == b"somebody's"
    assert log.read_bytes() == BYTES
