"""Log directories brought to the state of a clean shutdown: several at once, failures, kills, salvage."""

from __future__ import annotations

import errno
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from stratalog.directory.clean_state import NOTE
from stratalog.directory.recovery.result import Outcome
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
    MortalDisk,
    checkpoint,
    copy_of,
    damage,
    ends_by_kafka,
    files_of,
    marker,
    recover,
    recover_one,
    tear,
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
        # Killed after the last step of all, the run has nothing left to say, and could not say it.
        is_done = (directory / MARKER).exists() and not (directory / NOTE).exists()
        plan = recover_one(directory, dry_run=True, **options)
        again = recover_one(directory, **options)
        assert recover_one(directory, **options).cut_before == 0  # once is enough

        assert comparable(directory) == wanted, f"killed before change {last} of {counting.changes}"
        for told in () if is_done else (plan, again):
            # A run after a kill also tells what was cut off before the kill.
            assert told.cut_before + sum(found.cut_bytes for found in told.partitions) == cut_bytes
        shutil.rmtree(directory)


def two_directories(tmp_path: Path) -> tuple[Path, Path]:
    """Two log directories of one broker, each with a torn tail of 40 bytes."""
    one, two = copy_of("killed", tmp_path / "one"), tmp_path / "two"
    two.mkdir()
    shutil.copytree(one / "codecs-0", two / "other-0")
    properties = (one / "meta.properties").read_text().splitlines()
    properties = [line for line in properties if not line.startswith("directory.id")]
    (two / "meta.properties").write_text("\n".join([*properties, "directory.id=AAAAAAAAAAAAAAAAAAAAAQ", ""]))
    tear(one / "txn-0")
    tear(two / "other-0")
    return one, two


def test_killed_between_the_ends_of_two_directories_the_cuts_of_both_are_told(tmp_path: Path) -> None:
    """The first had its clean-shutdown file, and so was left alone without a word on what was cut off."""
    source = tmp_path / "source"
    source.mkdir()
    two_directories(source)
    is_between = False
    for last in range(1, 1000):
        directories = [tmp_path / "run" / name for name in ("one", "two")]
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(source, tmp_path / "run")
        with suppress(Killed):
            recover(*directories, disk=MortalDisk(last), readers=1)
        ended = [(directory / MARKER).exists() for directory in directories]
        if ended == [True, False]:
            is_between = True
            found = recover(*directories).directories
            assert [each.cut_before + sum(part.cut_bytes for part in each.partitions) for each in found] == [
                40,
                40,
            ]
            assert not any((directory / NOTE).exists() for directory in directories)
            assert [each.outcome for each in recover(*directories).directories] == [Outcome.CLEAN] * 2
        if all(ended):
            break
    assert is_between


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
