"""One directory's recovery: its lock, its listing, its checkpoints."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.recover import recover_directories
from stratalog.directory.recovery.result import Outcome
from stratalog.directory.write_journal import JOURNAL
from stratalog.errors import DiskError, FileOwnerError, LogDirLockedError
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock, is_locked
from stratalog.log.recovery.facts import FindingKind
from tests.directory.recovery.recovering import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    MARKER,
    RECOVERY_POINTS,
    SERVER,
    checkpoint,
    copy_of,
    damage,
    ends_by_kafka,
    files_of,
    recover,
    recover_one,
)


def test_what_is_not_a_partition_is_left_alone(killed: Path) -> None:
    before = files_of(killed)

    report = recover_one(killed)

    after = files_of(killed)
    alone = [name for name in before if name.startswith(("__cluster_metadata-0/", "short-lived-0."))]
    assert alone
    assert {name: after[name] for name in alone} == {name: before[name] for name in alone}
    assert {name for name in after if name.split("/")[0] in report.left_alone} == set(alone)


def test_the_lock_is_held_from_the_listing_to_the_marker(killed: Path) -> None:
    seen: list[tuple[str, bool]] = []

    class Asking(Disk):
        def list_directory(self, path):  # type: ignore[no-untyped-def]
            seen.append(("list", is_locked(killed)))
            return super().list_directory(path)

        def rename(self, source, target):  # type: ignore[no-untyped-def]
            seen.append((Path(target).name, is_locked(killed)))
            return super().rename(source, target)

    recover_one(killed, disk=Asking())

    assert {is_held for _, is_held in seen} == {True}
    assert (seen[0][0], seen[-1][0]) == ("list", MARKER)
    assert not is_locked(killed)


def test_a_directory_in_use_is_refused_and_none_is_touched(killed: Path, clean: Path) -> None:
    (clean / MARKER).unlink()
    before = files_of(killed), files_of(clean)

    with DirectoryLock(clean), pytest.raises(LogDirLockedError):
        recover(killed, clean)

    assert (files_of(killed), files_of(clean)) == before
    with DirectoryLock(killed):
        pass  # it was let go


@pytest.mark.parametrize("state", ["killed", "clean"])
def test_a_lock_that_is_lost_during_the_survey_is_noticed_before_the_first_change(
    state: str, tmp_path: Path
) -> None:
    """A broker that was just stopping deletes `.lock` last: the next one has another file of that name."""
    directory = copy_of(state, tmp_path / state)
    (directory / RECOVERY_POINTS).unlink()
    damage(directory / "idempotent-0" / "00000000000000000000.log")
    before = files_of(directory)

    class Stopping(Disk):
        def list_directory(self, path):  # type: ignore[no-untyped-def]
            if os.fspath(path).endswith("codecs-0"):
                (directory / ".lock").unlink(missing_ok=True)
            return super().list_directory(path)

    report = recover_one(directory, scan_all=True, disk=Stopping())

    assert report.outcome is Outcome.FAILED
    assert files_of(directory) == before


@pytest.mark.parametrize("state", ["killed", "clean"])
def test_a_dry_run_refuses_a_directory_in_use(state: str, tmp_path: Path) -> None:
    directory = copy_of(state, tmp_path / state)

    with DirectoryLock(directory), pytest.raises(LogDirLockedError):
        recover(directory, dry_run=True)


def test_a_future_log_is_recovered_like_any_other(killed: Path) -> None:
    (killed / "codecs-0").rename(killed / f"codecs-0.{'a' * 32}-future")

    report = recover_one(killed)

    (found,) = [part for part in report.partitions if part.name.endswith("-future")]
    assert found.log_end_offset == ends_by_kafka("killed")["codecs-0"]
    assert checkpoint(killed / RECOVERY_POINTS)["codecs-0"] == found.log_end_offset


def test_a_future_log_does_not_set_back_the_marks_of_the_log_beside_it(killed: Path) -> None:
    future = killed / f"codecs-0.{'a' * 32}-future"
    shutil.copytree(killed / "codecs-0", future)
    data = (future / "00000000000000000012.log").read_bytes()
    (future / "00000000000000000012.log").write_bytes(data[: 12 + int.from_bytes(data[8:12], "big")])

    report = recover_one(killed)

    assert report.problems == ()
    assert checkpoint(killed / HIGH_WATERMARKS)["codecs-0"] == 120
    assert checkpoint(killed / RECOVERY_POINTS)["codecs-0"] == ends_by_kafka("killed")["codecs-0"]


def test_a_checkpoint_that_would_take_the_directory_offline_is_made_anew(killed: Path) -> None:
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, "cleaner-offset-checkpoint"):
        (killed / name).write_text("7\n1\ncodecs 0 12\n")

    report = recover_one(killed)

    assert checkpoint(killed / RECOVERY_POINTS)["codecs-0"] == ends_by_kafka("killed")["codecs-0"]
    for name in (HIGH_WATERMARKS, LOG_STARTS, "cleaner-offset-checkpoint"):
        assert (killed / name).read_text() == "0\n0\n"
    assert len(report.problems) == 4


def test_without_any_checkpoint_deleted_records_were_visible_again_and_nothing_was_lost(killed: Path) -> None:
    for path in killed.glob("*-checkpoint"):
        path.unlink()
    (killed / "rolled-0" / "leader-epoch-checkpoint").write_bytes(b"")  # perhaps it never had a leader

    planned, done = recover_one(killed, dry_run=True), recover_one(killed)

    for report in (planned, done):
        # The broker that wrote the fixture deleted the records of trimmed-0 before offset 17.
        ((name, words),) = [
            (found.name, finding.words)
            for found in report.partitions
            for finding in found.findings
            if finding.kind is FindingKind.UNKNOWN_START
        ]
        assert name == "trimmed-0"
        assert words.startswith(f"{LOG_STARTS}: it is missing, as all checkpoints are. The log now starts at")
        assert "leader epochs begin at offset 17" in words


def test_one_epoch_file_that_could_not_be_read_kept_the_other_directories_from_their_recovery(
    killed: Path, tmp_path: Path
) -> None:
    broken = Path(shutil.copytree(killed, tmp_path / "broken"))
    (broken / "meta.properties").unlink()
    for path in broken.glob("*-checkpoint"):
        path.unlink()
    (broken / "rolled-0" / "leader-epoch-checkpoint").unlink()
    (broken / "rolled-0" / "leader-epoch-checkpoint").mkdir()
    for partition in killed.glob("*-[0-9]"):
        shutil.rmtree(broken / partition.name if partition.name != "rolled-0" else partition)

    report = recover(broken, killed)

    assert [found.outcome for found in report.directories] == [Outcome.FAILED, Outcome.RECOVERED]
    assert "rolled-0/leader-epoch-checkpoint" in str(report.directories[0].error)


def test_high_watermarks_are_clamped_and_never_raised(killed: Path) -> None:
    before = checkpoint(killed / HIGH_WATERMARKS)
    ends = ends_by_kafka("killed")
    (killed / HIGH_WATERMARKS).write_text(
        (killed / HIGH_WATERMARKS).read_text().replace("codecs 0 120", "codecs 0 9999")
    )

    recover_one(killed)

    assert checkpoint(killed / HIGH_WATERMARKS) == {**before, "codecs-0": ends["codecs-0"]}


def test_the_start_of_a_tiered_log_stays_as_it_was(killed: Path) -> None:
    text = "0\n2\ntrimmed 0 17\nrolled 0 3\n"
    (killed / LOG_STARTS).write_text(text)
    settings = json.dumps({"rolled": {"remote.storage.enable": "true"}})

    recover_directories([str(killed)], server=SERVER, topic_settings=settings)

    assert checkpoint(killed / LOG_STARTS) == {"trimmed-0": 17, "rolled-0": 3}


def test_a_disk_that_cannot_say_what_is_free_stopped_the_dry_run_of_all_directories(
    killed: Path, tmp_path: Path
) -> None:
    other = copy_of("killed", tmp_path / "other")

    class Silent(Disk):
        def free_size(self, path: object) -> int:
            if path == str(other):
                raise DiskError(str(path), "could not look at the file system", errno.EIO)
            return super().free_size(path)  # type: ignore[arg-type]

    plan = recover(killed, other, dry_run=True, disk=Silent())
    report = recover(killed, other, disk=Silent())

    assert [found.outcome for found in plan.directories] == [Outcome.PLANNED] * 2
    assert [found.outcome for found in report.directories] == [Outcome.RECOVERED] * 2


@pytest.mark.parametrize("data", [b"", bytes(4), b'{"version": 1}', b'{"version": 0}', None])
def test_a_dry_run_did_not_look_at_a_damaged_journal(killed: Path, data: bytes | None) -> None:
    if data is None:
        os.mkfifo(killed / JOURNAL)
    else:
        (killed / JOURNAL).write_bytes(data)

    plan = recover_one(killed, dry_run=True)
    report = recover_one(killed)

    assert (plan.outcome, report.outcome) == (Outcome.FAILED, Outcome.FAILED)
    assert plan.error == report.error
    assert JOURNAL in str(plan.error)


def test_a_folder_in_the_place_of_the_clean_shutdown_file_failed_only_the_run(clean: Path) -> None:
    (clean / MARKER).unlink()
    (clean / MARKER).mkdir()

    plan = recover_one(clean, scan_all=True, dry_run=True)
    report = recover_one(clean, scan_all=True)

    assert (plan.outcome, report.outcome) == (Outcome.FAILED, Outcome.FAILED)
    assert (plan.error, "it is a folder" in str(plan.error)) == (report.error, True)


def test_a_folder_in_the_place_of_a_logs_lock_failed_only_the_run(clean: Path) -> None:
    (clean / "rolled-0" / ".lock").mkdir()

    plan = recover_one(clean, scan_all=True, dry_run=True)
    report = recover_one(clean, scan_all=True)

    assert (plan.error, report.error) == (None, None)


class _Forbidden(DirectoryLock):
    """The lock of a directory in which this user may not create files."""

    def acquire(self, **_: bool) -> None:
        raise DiskError(self.path, "Permission denied", errno.EACCES)


def test_a_run_by_another_user_did_not_say_what_its_dry_run_said(killed: Path) -> None:
    before = files_of(killed)
    said = []

    for dry_run in (True, False):
        with pytest.raises(FileOwnerError) as refused:
            recover_directories(
                [str(killed)],
                options=RecoveryChoices(dry_run=dry_run, user=os.getuid() + 1),
                make_lock=_Forbidden,
            )
        said.append(str(refused.value))

    assert said[0] == said[1]
    assert files_of(killed) == before


@pytest.mark.parametrize("state", ["clean", "killed"])
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_partition_whose_folder_was_gone_was_no_finding(state: str, dry_run: bool, tmp_path: Path) -> None:
    root = copy_of(state, tmp_path / "data")
    shutil.rmtree(root / "codecs-0")
    before = files_of(root)

    found = recover_one(root, dry_run=dry_run)

    (problem,) = found.problems
    assert problem.name == "codecs-0"
    assert problem.words == f"its folder is gone, although {RECOVERY_POINTS} says offset 120"
    assert "records below offset 120 are missing" in problem.consequence
    if dry_run or state == "clean":
        assert files_of(root) == before


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_clean_log_whose_files_were_gone_was_no_finding(clean: Path, dry_run: bool) -> None:
    for path in (clean / "codecs-0").iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    before = files_of(clean)

    (problem,) = recover_one(clean, dry_run=dry_run).problems

    assert (problem.name, problem.consequence[:19]) == ("codecs-0", "records are missing")
    assert "ends at offset 0, and its recovery point is 120" in problem.words
    assert files_of(clean) == before


def test_a_log_that_is_gone_is_told_again_until_a_broker_starts(killed: Path) -> None:
    shutil.rmtree(killed / "codecs-0")

    first = recover_one(killed).problems
    again = recover_one(killed).problems

    assert [(each.name, HIGH_WATERMARKS in each.words) for each in (*first, *again)] == [
        ("codecs-0", False),
        ("codecs-0", True),
    ]


def test_a_log_that_is_in_the_other_directory_is_not_gone(killed: Path, tmp_path: Path) -> None:
    other = copy_of("killed", tmp_path / "other")
    shutil.rmtree(killed / "codecs-0")

    report = recover(killed, other)

    assert [found.problems for found in report.directories] == [(), ()]
