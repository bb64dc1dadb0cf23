"""Log directories brought to the state of a clean shutdown: several at once, failures, kills, salvage."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from stratalog.directory.clean_state import NOTE
from stratalog.directory.recovery.result import DirectoryReport, Outcome
from stratalog.errors import DiskError, UsageError
from stratalog.files.disk import Disk, ReadFile
from stratalog.files.names import QUARANTINE_MANIFEST
from stratalog.log.recovery.facts import FindingKind
from tests import profile
from tests.directory.recovery.recovering import (
    EPOCH_OF_CLEAN,
    HIGH_WATERMARKS,
    LOG_STARTS,
    MARKER,
    NO_EPOCH,
    RECOVERY_POINTS,
    Killed,
    checkpoint,
    copy_of,
    damage,
    ends_by_kafka,
    files_of,
    marker,
    recover,
    recover_one,
)


def test_a_killed_directory_becomes_what_a_clean_stop_leaves(killed: Path) -> None:
    report = recover_one(killed)

    assert (report.outcome, report.error) == (Outcome.RECOVERED, None)
    assert {found.name: found.log_end_offset for found in report.partitions} == ends_by_kafka("killed")
    assert checkpoint(killed / RECOVERY_POINTS) == ends_by_kafka("killed")
    assert marker(killed) == NO_EPOCH
    assert not (killed / NOTE).exists()


def test_where_nothing_is_wrong_no_log_and_no_list_of_aborts_changes(clean: Path) -> None:
    """All is read from the beginning, and every index is garbage."""
    before = files_of(clean)
    (clean / MARKER).unlink()
    (clean / RECOVERY_POINTS).unlink()
    for index in clean.glob("[a-z]*-0/*.*index"):
        index.write_bytes(b"\7" * 100)

    recover_one(clean)

    after = files_of(clean)
    assert checkpoint(clean / RECOVERY_POINTS) == ends_by_kafka("clean")
    kept = (".log", ".txnindex", "partition.metadata", HIGH_WATERMARKS, LOG_STARTS)
    assert {name: data for name, data in after.items() if name.endswith(kept)} == {
        name: data for name, data in before.items() if name.endswith(kept)
    }


def test_recovered_once_it_is_clean_and_a_second_run_changes_nothing(killed: Path) -> None:
    recover_one(killed)
    before = files_of(killed)

    again = recover_one(killed)

    assert again.outcome is Outcome.CLEAN
    assert not any(found.findings for found in again.partitions)
    assert files_of(killed) == before


def test_a_clean_directory_is_left_byte_for_byte_and_not_even_locked(clean: Path) -> None:
    before = files_of(clean)

    report = recover_one(clean)

    assert report.outcome is Outcome.CLEAN
    assert not any(found.findings for found in report.partitions)
    assert files_of(clean) == before
    assert not (clean / ".lock").exists()


def test_a_padded_index_of_a_clean_directory_is_told_and_left(clean: Path) -> None:
    index = clean / "codecs-0" / "00000000000000000012.index"
    index.write_bytes(index.read_bytes().ljust(4096, b"\0"))

    report = recover(clean)

    (found,) = [part for part in report.directories[0].partitions if part.name == "codecs-0"]
    (finding,) = found.findings
    assert finding.kind is FindingKind.PADDED_INDEX
    assert finding.consequence == (
        "The directory was shut down cleanly, so nothing is changed. With --all: It is cut to its entries."
    )
    assert index.stat().st_size == 4096


@pytest.mark.parametrize("name", ["txn-0", "__transaction_state-0"])
def test_a_missing_snapshot_of_a_clean_directory_is_told_and_left(clean: Path, name: str) -> None:
    last = max((clean / name).glob("*.snapshot"))
    assert int(last.stem) == ends_by_kafka("clean")[name]
    last.unlink()
    before = files_of(clean)

    report = recover(clean)

    told = {part.name: [found.kind for found in part.findings] for part in report.directories[0].partitions}
    assert {part: kinds for part, kinds in told.items() if kinds} == {name: [FindingKind.MISSING_SNAPSHOT]}
    assert files_of(clean) == before


def test_all_repairs_a_clean_directory_and_gives_its_epoch_back(clean: Path) -> None:
    index = clean / "codecs-0" / "00000000000000000012.index"
    good = index.read_bytes()
    index.write_bytes(good.ljust(4096, b"\0"))

    report = recover_one(clean, scan_all=True)

    assert report.broker_epoch == EPOCH_OF_CLEAN
    assert marker(clean) == {"version": 0, "brokerEpoch": EPOCH_OF_CLEAN}
    assert index.read_bytes() == good


def test_a_dry_run_shows_the_same_and_changes_nothing(killed: Path) -> None:
    lost = damage(killed / "idempotent-0" / "00000000000000000000.log")
    (killed / RECOVERY_POINTS).unlink()
    before = files_of(killed)

    planned = recover_one(killed, dry_run=True)

    assert files_of(killed) == before
    assert not (killed / ".lock").exists()
    assert planned.outcome is Outcome.PLANNED
    done = recover_one(killed)
    assert [(part.name, part.log_end_offset, part.cut_bytes) for part in planned.partitions] == [
        (part.name, part.log_end_offset, part.cut_bytes) for part in done.partitions
    ]
    (cut,) = [part for part in planned.partitions if part.cuts]
    assert (cut.name, cut.log_end_offset) == ("idempotent-0", lost)


class FailingDisk(Disk):
    """A disk that cannot read below one path, as one with a bad block there."""

    def __init__(self, bad: Path) -> None:
        super().__init__()
        self._bad = os.fspath(bad)

    def read_into(self, source, buffer, position, identity=None):  # type: ignore[no-untyped-def]
        path = source.path if isinstance(source, ReadFile) else os.fspath(source)
        if path.startswith(self._bad):
            raise DiskError(path, "could not read it", errno.EIO)
        return super().read_into(source, buffer, position, identity)


def three_directories(tmp_path: Path) -> list[Path]:
    return [copy_of("killed", tmp_path / name) for name in ("one", "two", "three")]


def test_one_of_three_failing_leaves_the_others_recovered_without_an_epoch(tmp_path: Path) -> None:
    one, two, three = three_directories(tmp_path)
    before = files_of(two / "rolled-0")

    report = recover(one, two, three, disk=FailingDisk(two / "rolled-0"), process_crash=True)

    outcomes = [found.outcome for found in report.directories]
    assert outcomes == [Outcome.RECOVERED, Outcome.FAILED, Outcome.RECOVERED]
    assert (marker(one), marker(three)) == (NO_EPOCH, NO_EPOCH)
    assert not (two / MARKER).exists()
    assert files_of(two / "rolled-0") == before
    assert report.is_failed


def test_a_directory_that_is_not_there_fails_alone(killed: Path, tmp_path: Path) -> None:
    report = recover(killed, tmp_path / "unmounted")

    assert [found.outcome for found in report.directories] == [Outcome.RECOVERED, Outcome.FAILED]


class MortalDisk(Disk):
    """A disk whose process is killed before its change number `last`."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.changes = 0
        self._last = last

    def _change(self) -> None:
        self.changes += 1
        if self.changes >= self._last:
            raise Killed


def _mortal(name: str) -> Callable[..., object]:
    def method(self: MortalDisk, *arguments: object, **options: object) -> object:
        self._change()
        return getattr(Disk, name)(self, *arguments, **options)

    return method


for _name in ("append", "write_at", "create", "truncate", "rename", "delete", "set_modified", "sync"):
    setattr(MortalDisk, _name, _mortal(_name))


@pytest.mark.parametrize("state", ["killed", "clean"])
def test_killed_anywhere_and_run_again_it_comes_to_the_same(state: str, tmp_path: Path) -> None:
    source = copy_of(state, tmp_path / "source")
    for name in ("binary-0", "compacted-0", "trimmed-0", "headers-0", "logappend-0", "rolled-0"):
        shutil.rmtree(source / name)
    (source / RECOVERY_POINTS).write_text("0\n0\n")
    damage(source / "idempotent-0" / "00000000000000000000.log")
    options: dict[str, object] = {"scan_all": True, "process_crash": True, "readers": 1}
    once = tmp_path / "once"
    shutil.copytree(source, once)
    counting = MortalDisk(1 << 30)
    (report,) = recover(once, disk=counting, **options).directories
    wanted, cut_bytes = comparable(once), sum(found.cut_bytes for found in report.partitions)
    assert cut_bytes
    assert counting.changes > 20

    every = 1 if profile.current() == profile.DEEP else 3  # the crash sweep has all of them, simulated
    for last in range(1, counting.changes + 1, every):
        directory = tmp_path / f"again-{last}"
        shutil.copytree(source, directory)
        with pytest.raises(Killed):
            recover(directory, disk=MortalDisk(last), **options)
        is_done = (directory / MARKER).exists() and (directory / QUARANTINE_MANIFEST).exists()
        plan = recover_one(directory, dry_run=True, **options)
        again = recover_one(directory, **options)
        assert recover_one(directory, **options).cut_before == 0  # once is enough

        assert comparable(directory) == wanted, f"killed before change {last} of {counting.changes}"
        for told in () if is_done else (plan, again):
            # A run after a kill also tells what was cut off before the kill.
            assert told.cut_before + sum(found.cut_bytes for found in told.partitions) == cut_bytes
        shutil.rmtree(directory)


def torn_and_killed(directory: Path, **options: object) -> None:
    """Two torn tails, and a recovery that is killed when it has cut off the first of them."""
    logs = [max((directory / name).glob("*.log")) for name in ("codecs-0", "txn-0")]
    sizes = [log.stat().st_size for log in logs]
    for log in logs:
        with log.open("ab") as file:
            file.write(log.read_bytes()[:40])
    for last in range(1, 1000):
        with suppress(Killed):
            recover(directory, disk=MortalDisk(last), readers=1, **options)
        if [log.stat().st_size for log in logs] != [size + 40 for size in sizes]:
            assert not (directory / MARKER).exists()
            return


def told(report: DirectoryReport) -> list[str]:
    return [problem.words for problem in report.problems if "did not end" in problem.words]


def test_a_cut_of_a_killed_run_is_found_in_the_quarantine_that_it_had(killed: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    torn_and_killed(killed, quarantine=str(tmp_path / "kept"))

    report = recover_one(killed, keeps_cuts=False)

    assert report.cut_before + sum(found.cut_bytes for found in report.partitions) == 80
    assert told(report) == ["40 bytes were cut off by a recovery that did not end"]


def test_a_cut_of_a_killed_run_is_found_by_another_name_of_the_directory(
    killed: Path, tmp_path: Path
) -> None:
    torn_and_killed(killed)
    (tmp_path / "link").symlink_to(killed)

    report = recover_one(tmp_path / "link")

    assert report.cut_before + sum(found.cut_bytes for found in report.partitions) == 80


@pytest.mark.parametrize("is_kept", [False, True])
def test_that_a_killed_run_may_have_cut_off_more_is_said(killed: Path, tmp_path: Path, is_kept: bool) -> None:
    (tmp_path / "kept").mkdir()
    torn_and_killed(killed, quarantine=str(tmp_path / "kept") if is_kept else None, keeps_cuts=is_kept)
    shutil.rmtree(tmp_path / "kept")

    report = recover_one(killed)

    (words,) = told(report)
    assert words.startswith("a recovery that did not end may have cut something off, and kept ")
    assert words.endswith(f"it in {tmp_path / 'kept'}, which is not there now" if is_kept else "nothing")
    assert told(recover_one(killed, scan_all=True)) == []


def comparable(directory: Path) -> dict[str, bytes]:
    """The files, without the times at which something was put into quarantine."""
    found = files_of(directory)
    lines = [json.loads(line) for line in found.pop(QUARANTINE_MANIFEST, b"").splitlines() if line]
    told = [{key: line[key] for key in ("partition", "file", "position", "size", "parts")} for line in lines]
    return {**found, QUARANTINE_MANIFEST: json.dumps(told).encode()}


def test_salvage_keeps_what_is_whole_behind_the_damage_and_promises_nothing(killed: Path) -> None:
    log = killed / "idempotent-0" / "00000000000000000000.log"
    (killed / RECOVERY_POINTS).unlink()
    damage(log)

    report = recover(killed, salvage=True, process_crash=True)

    (found,) = [part for part in report.directories[0].partitions if part.name == "idempotent-0"]
    assert found.log_end_offset == ends_by_kafka("killed")["idempotent-0"]
    assert FindingKind.GAP in {finding.kind for finding in found.findings}
    assert marker(killed) == NO_EPOCH


def test_a_second_name_of_a_partition_is_told_before_any_change(killed: Path, tmp_path: Path) -> None:
    other = copy_of("killed", tmp_path / "other")
    (killed / "rolled-00").symlink_to("rolled-0")
    before = files_of(killed)

    report = recover(killed, other)

    first, second = report.directories
    assert first.error is not None
    assert f"{killed}/rolled-00: it is another name of {killed}/rolled-0." in first.error
    assert files_of(killed) == before
    assert second.outcome is Outcome.RECOVERED


def test_a_directory_named_twice_is_wrong_usage(killed: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(killed)

    with pytest.raises(UsageError):
        recover(killed, tmp_path / "link")
