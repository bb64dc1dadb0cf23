"""What a recovery cuts off of log directories is kept, and comes back."""

from __future__ import annotations

import errno
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from stratalog.directory.recovery import finishing
from stratalog.directory.recovery.finishing import Finisher, PartitionRecovery
from stratalog.directory.recovery.result import Outcome
from stratalog.errors import DiskError, LogDirLockedError
from stratalog.files.disk import Disk
from stratalog.files.entries import FileStatus
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


class RefusingDisk(Disk):
    """A disk that does not sync files below one directory; it notes what it was asked for."""

    def __init__(self, bad: Path, *, written: bool) -> None:
        super().__init__()
        self._bad = str(bad)
        self._written = written
        self.asked: list[str] = []

    def _refuse(self, path: str) -> None:
        self.asked.append(path)
        if path.startswith(self._bad):
            raise DiskError(path, "refused", errno.EIO)

    def sync(self, path: object) -> None:
        if not self._written:
            self._refuse(str(path))
        super().sync(path)  # type: ignore[arg-type]

    def _write_temporaries(self, files: Sequence[tuple[object, object]], turn: object = None) -> list[str]:
        for path, _ in files:
            if self._written:
                self._refuse(str(path))
        return super()._write_temporaries(files, turn)  # type: ignore[arg-type]


@pytest.mark.parametrize("written", [True, False])
def test_an_error_fails_the_directory_it_is_in_though_others_are_finished_with_it(
    tmp_path: Path, written: bool
) -> None:
    one, two = (copy_of("killed", tmp_path / name) for name in ("one", "two"))
    whole = copy_of("killed", tmp_path / "whole")
    for directory in (one, two, whole):
        (directory / "recovery-point-offset-checkpoint").write_text("0\n0\n")
        for path in directory.glob("*-0/*.timeindex"):
            path.unlink()
    disk = RefusingDisk(two, written=written)

    report = recover(one, two, disk=disk)
    recover(whole)

    assert [found.outcome for found in report.directories] == [Outcome.RECOVERED, Outcome.FAILED]
    assert not (two / ".kafka_cleanshutdown").exists()
    assert "refused" in (report.directories[1].error or "")
    names = {path.relative_to(whole) for path in whole.glob("*-0/*")}
    assert {path.relative_to(one) for path in one.glob("*-0/*")} == names
    if not written:
        refused = [path for path in disk.asked if path.startswith(str(two))]
        assert len(refused) == len(set(refused)), "a second sync would not report the error"


@pytest.fixture
def all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is finished until all scans are done, so that all partitions are finished together."""

    def slowly(self: Finisher) -> list[PartitionRecovery]:
        while not self._is_ended:
            time.sleep(0.01)
        return take(self)

    take = Finisher._take
    monkeypatch.setattr(Finisher, "_take", slowly)


@pytest.mark.usefixtures("all_at_once")
def test_partitions_before_the_first_that_fails_are_finished_and_reported(tmp_path: Path) -> None:
    """They were left in mid recovery, and the report of the run lacked partitions of the dry run."""
    directory = copy_of("killed", tmp_path / "data")
    damage(directory / "blocks-0" / "00000000000000000000.log")
    index = directory / "rolled-0" / "00000000000000000020.index"
    index.unlink()
    index.mkdir()

    planned = recover_one(directory, dry_run=True)
    done = recover_one(directory)

    assert planned.outcome is done.outcome is Outcome.FAILED
    assert [part.name for part in done.partitions] == [part.name for part in planned.partitions]
    (cut,) = [cut for part in done.partitions for cut in part.cuts]
    assert [kept.files[0] for kept in Quarantine(Disk(), directory).entries()] == [cut.kept_as]


@pytest.mark.usefixtures("all_at_once")
@pytest.mark.parametrize("written", [True, False])
def test_what_was_cut_off_before_another_partition_failed_is_reported(tmp_path: Path, written: bool) -> None:
    """It was in quarantine, and in no report: the next run found nothing left to cut."""
    directory = copy_of("killed", tmp_path / "data")
    (directory / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    for path in directory.glob("blocks-0/*.timeindex"):
        path.unlink()
    for name in ("codecs-0", "headers-0", "idempotent-0", "rolled-0"):
        damage(max((directory / name).glob("*.log"), key=lambda path: (path.stat().st_size > 100, path.name)))

    report = recover_one(directory, disk=RefusingDisk(directory / "blocks-0", written=written))

    assert report.outcome is Outcome.FAILED
    cuts = {cut.kept_as for part in report.partitions for cut in part.cuts}
    kept = {file for entry in Quarantine(Disk(), directory).entries() for file in entry.files}
    assert len(kept) >= 4
    assert {name for cut in cuts if cut for name in cut.split(", ")} == kept


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("written", [True, False])
def test_what_was_cut_off_before_its_own_partition_failed_was_in_no_report(
    tmp_path: Path, written: bool, keeps: bool
) -> None:
    directory = copy_of("killed", tmp_path / "data")
    (directory / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    log = max((directory / "rolled-0").glob("*.log"), key=lambda path: (path.stat().st_size > 100, path.name))
    size = log.stat().st_size
    damage(log)
    for path in directory.glob("rolled-0/*.timeindex"):
        path.unlink()

    report = recover_one(
        directory, disk=RefusingDisk(directory / "rolled-0", written=written), keeps_cuts=keeps
    )

    assert report.outcome is Outcome.FAILED
    (part,) = [part for part in report.partitions if part.name == "rolled-0"]
    (cut,) = part.cuts
    assert (cut.file, cut.size) == (log.name, size - log.stat().st_size)
    assert cut.size > 0
    kept = [file for entry in Quarantine(Disk(), directory).entries() for file in entry.files]
    assert kept == ([cut.kept_as] if keeps else [])


class DyingDisk(Disk):
    """Once a log below one directory is cut, nothing there can be reached any more, not even by `stat`."""

    def __init__(self, bad: Path) -> None:
        super().__init__()
        self._bad, self._is_dead = str(bad), False

    def truncate(self, path: object, size: int) -> None:
        super().truncate(path, size)  # type: ignore[arg-type]
        if str(path).startswith(self._bad) and str(path).endswith(".log"):
            self._is_dead = True

    def _refuse(self, path: object) -> None:
        if self._is_dead and str(path).startswith(self._bad):
            raise DiskError(str(path), "it is gone", errno.EIO)

    def status(self, path: object) -> FileStatus | None:
        self._refuse(path)
        return super().status(path)  # type: ignore[arg-type]

    def sync(self, path: object) -> None:
        self._refuse(path)
        super().sync(path)  # type: ignore[arg-type]

    def sync_directory(self, path: object) -> None:
        self._refuse(path)
        super().sync_directory(path)  # type: ignore[arg-type]


def test_a_disk_that_dies_after_a_cut_does_not_end_the_recovery_of_the_others(tmp_path: Path) -> None:
    good, bad = (copy_of("killed", tmp_path / name) for name in ("good", "bad"))
    for directory in (good, bad):
        (directory / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    damage(bad / "blocks-0" / "00000000000000000000.log")

    report = recover(good, bad, disk=DyingDisk(bad))

    assert [each.outcome for each in report.directories] == [Outcome.RECOVERED, Outcome.FAILED]
    assert (good / ".kafka_cleanshutdown").exists()
    (cut,) = [cut for part in report.directories[1].partitions for cut in part.cuts]
    (kept,) = [file for entry in Quarantine(Disk(), bad).entries() for file in entry.files]
    assert cut.kept_as == kept


def test_partitions_that_wait_are_finished_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Whether together or one by one: the bytes are the same."""
    one, all_of_them = (copy_of("killed", tmp_path / name) for name in ("one", "all"))
    for directory in (one, all_of_them):
        (directory / "recovery-point-offset-checkpoint").write_text("0\n0\n")
        for path in directory.glob("*-0/*.*index"):
            path.unlink()
    counts: list[int] = []
    finish = Finisher._finish

    def counted(self: Finisher, works: Sequence[PartitionRecovery]) -> None:
        counts.append(len(works))
        finish(self, works)

    monkeypatch.setattr(Finisher, "_finish", counted)
    with monkeypatch.context() as patched:
        patched.setattr(finishing, "_TOGETHER_SIZE", 1)
        recover(one)
    assert set(counts) == {1}
    partitions_count = len(counts)
    counts.clear()

    request.getfixturevalue("all_at_once")
    recover(all_of_them)
    assert counts == [partitions_count]
    assert comparable(files_of(one)) == comparable(files_of(all_of_them))


def comparable(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: b"" if name.endswith(".snapshot") else data for name, data in files.items()}
