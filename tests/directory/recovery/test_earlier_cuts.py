"""What killed recoveries have cut off is told by the next one, or is said to be unknown."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from stratalog.directory.clean_state import NOTE
from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.recover import recover_directories
from stratalog.directory.recovery.result import DirectoryReport, Outcome
from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from stratalog.files.names import QUARANTINE_MANIFEST
from tests.directory.recovery.recovering import (
    RECOVERY_POINTS,
    SERVER,
    Killed,
    recover_one,
    tear,
)

NAMES = ("codecs-0", "rolled-0", "txn-0")
MAY = "a recovery that did not end may have cut something off, and "
CUT = "40 bytes were cut off by a recovery that did not end"

Torn = list[tuple[Path, int]]


@pytest.fixture
def torn(killed: Path) -> Torn:
    """Three torn tails of 40 bytes: their logs, and the sizes to which a recovery cuts them."""
    return [tear(killed / name) for name in NAMES]


class CuttingDisk(Disk):
    """A disk whose process is killed when it has cut this many logs."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count

    def truncate(self, path: str | os.PathLike[str], size: int) -> None:
        super().truncate(path, size)
        self._count -= os.fspath(path).endswith(".log")
        if self._count == 0:
            raise Killed


def recover_until(torn: Torn, count: int, *, now_ms: int | None = None, **options: Any) -> None:
    """A recovery that is killed when this many of the torn tails are cut off."""
    directory = torn[0][0].parent.parent
    done = sum(log.stat().st_size == size for log, size in torn)
    with pytest.raises(Killed):
        recover_at(directory, now_ms, disk=CuttingDisk(count - done), **options)
    assert sum(log.stat().st_size == size for log, size in torn) == count


def recover_at(directory: Path, now_ms: int | None, disk: Disk | None = None, **options: Any) -> None:
    clock = {} if now_ms is None else {"clock": lambda: now_ms}
    choices = RecoveryChoices(**options)
    recover_directories([str(directory)], disk=disk, server=SERVER, options=choices, **clock)  # type: ignore[arg-type]


def told(report: DirectoryReport) -> list[str]:
    return [problem.words for problem in report.problems if "did not end" in problem.words]


def bytes_cut(report: DirectoryReport) -> tuple[int, int]:
    return report.cut_before, sum(found.cut_bytes for found in report.partitions)


def test_a_cut_is_found_in_the_quarantine_that_the_killed_run_had(
    killed: Path, torn: Torn, tmp_path: Path
) -> None:
    (tmp_path / "kept").mkdir()
    recover_until(torn, 1, quarantine=str(tmp_path / "kept"))

    report = recover_one(killed, keeps_cuts=False)

    assert (bytes_cut(report), told(report)) == ((40, 80), [CUT])


def test_a_cut_is_found_by_another_name_of_the_directory(killed: Path, torn: Torn, tmp_path: Path) -> None:
    recover_until(torn, 1)
    (tmp_path / "link").symlink_to(killed)

    assert bytes_cut(recover_one(tmp_path / "link")) == (40, 80)


def test_the_quarantines_of_two_killed_runs_are_both_searched(
    killed: Path, torn: Torn, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    recover_until(torn, 1, quarantine=str(tmp_path / "one"))
    recover_until(torn, 2, quarantine=str(tmp_path / "two"))

    report = recover_one(killed)

    assert (bytes_cut(report), report.kept_before, report.has_unknown_cuts) == ((80, 40), 80, False)


def test_a_clock_that_goes_back_hid_the_cuts_of_the_second_run(killed: Path, torn: Torn) -> None:
    recover_until(torn, 1, now_ms=2_000_000_000_000)
    recover_until(torn, 2, now_ms=1_000_000_000_000)

    assert bytes_cut(recover_one(killed)) == (80, 40)


def test_bytes_that_a_finished_run_had_kept_before_were_not_told(
    killed: Path, torn: Torn, tmp_path: Path
) -> None:
    """A backup was restored, and recovered again with the same quarantine elsewhere."""
    shutil.copytree(killed, tmp_path / "backup")
    (tmp_path / "kept").mkdir()
    recover_one(killed, quarantine=str(tmp_path / "kept"))
    shutil.rmtree(killed)
    shutil.copytree(tmp_path / "backup", killed)
    recover_until(torn, 3, quarantine=str(tmp_path / "kept"))

    report = recover_one(killed, quarantine=str(tmp_path / "kept"))

    assert (bytes_cut(report), report.kept_before) == ((120, 0), 120)
    assert len({*(tmp_path / "kept").glob("stratalog-quarantine-*")}) == 3


@pytest.mark.parametrize("has_old_place", [False, True])
def test_a_directory_that_was_moved_knew_nothing_of_its_cuts(
    killed: Path, torn: Torn, tmp_path: Path, has_old_place: bool
) -> None:
    recover_until(torn, 3)
    killed.rename(tmp_path / "moved")
    if has_old_place:
        killed.mkdir()  # a mount point

    report = recover_one(tmp_path / "moved")

    assert (bytes_cut(report), report.has_unknown_cuts) == ((120, 0), False)


def test_that_a_second_run_kept_nothing_is_said_beside_what_the_first_kept(killed: Path, torn: Torn) -> None:
    recover_until(torn, 1)
    recover_until(torn, 2, keeps_cuts=False)

    report = recover_one(killed)

    assert bytes_cut(report) == (40, 40)
    assert told(report) == [CUT, f"{MAY}kept nothing"]


def test_bytes_that_are_gone_from_quarantine_are_told_nevertheless(killed: Path, torn: Torn) -> None:
    recover_until(torn, 3)
    for file in killed.glob("stratalog-quarantine-*"):
        file.unlink()

    report = recover_one(killed)

    assert (bytes_cut(report), report.kept_before) == ((120, 0), 0)
    assert {problem.consequence for problem in report.problems} == {"they are no longer in quarantine"}


def test_after_a_note_that_cannot_be_read_nothing_is_known(killed: Path, torn: Torn) -> None:
    recover_until(torn, 3)
    (killed / NOTE).write_bytes(bytes(50))

    report = recover_one(killed)

    assert told(report) == [f"{MAY}its note cannot be read"]
    assert report.has_unknown_cuts
    assert told(recover_one(killed, scan_all=True)) == []  # once is enough


def test_a_log_that_is_torn_again_at_the_same_place_is_cut_twice(killed: Path, torn: Torn) -> None:
    recover_until(torn, 3)
    for name in NAMES:
        tear(killed / name, 100, 160)

    assert bytes_cut(recover_one(killed)) == (120, 180)


def test_bytes_that_were_kept_but_not_cut_off_are_told_once(killed: Path, torn: Torn) -> None:
    recover_until(torn, 1)
    log, _ = next((log, size) for log, size in torn if log.stat().st_size == size)
    log.write_bytes(log.read_bytes() + log.read_bytes()[:40])  # as if the run had been killed before the cut

    assert bytes_cut(recover_one(killed)) == (0, 120)


@pytest.mark.parametrize("how", ["gone", "an empty mount point", "unreadable", "a bad block"])
def test_that_a_quarantine_is_not_there_is_said(killed: Path, torn: Torn, tmp_path: Path, how: str) -> None:
    place = tmp_path / "kept"
    place.mkdir()
    recover_until(torn, 1, quarantine=str(place))
    if how == "unreadable":
        (place / QUARANTINE_MANIFEST).rename(place / "manifest")
        (place / QUARANTINE_MANIFEST).symlink_to("manifest")
    elif how != "a bad block":
        shutil.rmtree(place)
    if how == "an empty mount point":
        place.mkdir()

    class Failing(Disk):
        def read_at(self, path, size, position, *identity):  # type: ignore[no-untyped-def]
            if how == "a bad block" and str(path).startswith(str(place)):
                raise DiskError(path, "could not read it", errno.EIO)
            return super().read_at(path, size, position, *identity)

    report = recover_one(killed, disk=Failing())

    (words,) = told(report)
    assert words.startswith(
        {
            "gone": f"{MAY}kept it in {place}, which is not there now",
            "an empty mount point": f"{MAY}kept it in {place}, whose manifest does not list it now",
            "a bad block": f"{MAY}what it kept cannot be read: {place}",
            "unreadable": f"{MAY}what it kept cannot be read: {place}",
        }[how]
    )
    assert told(recover_one(killed, scan_all=True)) == []


def test_a_relative_quarantine_is_found_from_another_directory(
    killed: Path, torn: Torn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "elsewhere" / "kept").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    recover_until(torn, 3, quarantine="kept")
    monkeypatch.chdir(tmp_path / "elsewhere")

    assert bytes_cut(recover_one(killed)) == (120, 0)


def test_only_logs_count_as_cut_off(killed: Path, torn: Torn) -> None:
    recover_until(torn, 3)
    lines = [json.loads(line) for line in (killed / QUARANTINE_MANIFEST).read_text().splitlines()]
    other = {**lines[0], "file": "partition.metadata", "position": 0}
    empty = {**lines[0], "size": 0, "position": 7, "parts": []}
    with (killed / QUARANTINE_MANIFEST).open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in (other, empty))

    report = recover_one(killed)

    assert bytes_cut(report) == (120, 0)
    assert [problem.name for problem in report.problems] == [*NAMES]


def test_a_dry_run_says_the_same_and_forgets_nothing(killed: Path, torn: Torn) -> None:
    recover_until(torn, 2)

    plan = recover_one(killed, dry_run=True)
    report = recover_one(killed)

    assert (bytes_cut(plan), plan.problems) == (bytes_cut(report), report.problems)
    assert report.outcome is Outcome.RECOVERED
    assert not os.path.lexists(killed / NOTE)


class SlowWriterDisk(Disk):
    """A disk whose process is killed when it writes the recovery points, after all partitions."""

    def replace(self, path: str | os.PathLike[str], data: bytes) -> None:
        if Path(path).name == RECOVERY_POINTS:
            raise Killed
        super().replace(path, data)


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_killed_run_that_had_found_missing_records_left_a_run_that_found_nothing(
    killed: Path, dry_run: bool
) -> None:
    (killed / "rolled-0" / "00000000000000000040.log").unlink()
    with pytest.raises(Killed):
        recover_at(killed, None, disk=SlowWriterDisk())
    assert not list(killed.glob("rolled-0/00000000000000000040.*index"))

    report = recover_one(killed, process_crash=True, dry_run=dry_run)

    assert told(report) == [
        "an earlier run that did not end has found that records are missing, or has cut something off"
    ]
    assert report.broker_epoch == -1


def test_a_run_that_finds_the_loss_again_does_not_speak_of_the_killed_one(killed: Path) -> None:
    (killed / "rolled-0" / "00000000000000000040.log").unlink()
    (killed / NOTE).write_text(json.dumps({"version": 0, "has_cut": True}))

    report = recover_one(killed)

    assert told(report) == []
