"""What a recovery cuts off of log directories is kept, and comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.directory.recovery.result import Outcome
from stratalog.errors import LogDirLockedError
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from stratalog.log.recovery.quarantine import Quarantine
from tests.directory.recovery.recovering import copy_of, damage, files_of, recover, recover_one


def test_what_is_cut_off_comes_back_from_quarantine(killed: Path, tmp_path: Path) -> None:
    log = killed / "blocks-0" / "00000000000000000000.log"  # no recovery point, one segment
    damage(log)
    before = log.read_bytes()

    report = recover_one(killed)

    (cut,) = [cut for part in report.partitions for cut in part.cuts]
    (kept,) = Quarantine(Disk(), killed).entries()
    Quarantine(Disk(), killed).restore(kept, tmp_path / "restored")
    assert log.read_bytes() + (tmp_path / "restored").read_bytes() == before
    assert cut.kept_as == kept.files[0]


def test_quarantine_can_be_elsewhere(killed: Path, tmp_path: Path) -> None:
    damage(killed / "blocks-0" / "00000000000000000000.log")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    report = recover_one(killed, quarantine=str(elsewhere))

    (cut,) = [cut for part in report.partitions for cut in part.cuts]
    assert cut.kept_as is not None
    assert Path(cut.kept_as).parent == elsewhere
    assert Path(cut.kept_as).exists()
    assert not list(killed.glob("stratalog-*"))


def test_the_manifest_of_a_shared_quarantine_says_from_which_directory_each_line_is(tmp_path: Path) -> None:
    """The same bytes, cut from two replicas of one partition: each is reported, and each can be restored."""
    first, second = copy_of("killed", tmp_path / "first"), copy_of("killed", tmp_path / "second")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    before = {}
    for directory in (first, second):
        log = directory / "blocks-0" / "00000000000000000000.log"
        damage(log)
        before[str(directory)] = log.read_bytes()

    for directory in (first, second):
        recover_one(directory, quarantine=str(elsewhere))

    place = Quarantine(Disk(), elsewhere)
    assert [kept.directory for kept in place.entries()] == [str(first), str(second)]
    for kept in place.entries():
        target = tmp_path / "restored"
        place.restore(kept, target)
        assert (Path(kept.directory) / kept.partition / kept.file).read_bytes() + target.read_bytes() == (
            before[kept.directory]
        )
        target.unlink()


def test_two_runs_do_not_keep_in_one_place_at_the_same_time(killed: Path, tmp_path: Path) -> None:
    """Replicas have the same names: one run would mistake the other's copy for that of a killed run."""
    damage(killed / "blocks-0" / "00000000000000000000.log")
    before = files_of(killed)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    with DirectoryLock(elsewhere), pytest.raises(LogDirLockedError, match="elsewhere"):
        recover(killed, quarantine=str(elsewhere))

    assert files_of(killed) == before


def test_the_log_directory_itself_can_be_named_as_quarantine(killed: Path) -> None:
    damage(killed / "blocks-0" / "00000000000000000000.log")

    assert recover_one(killed, quarantine=str(killed)).outcome is Outcome.RECOVERED


def test_without_quarantine_nothing_is_kept(killed: Path) -> None:
    damage(killed / "blocks-0" / "00000000000000000000.log")

    report = recover_one(killed, keeps_cuts=False)

    assert [cut.kept_as for part in report.partitions for cut in part.cuts] == [None]
    assert not list(killed.glob("stratalog-*"))
