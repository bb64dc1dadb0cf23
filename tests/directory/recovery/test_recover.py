"""Log directories brought to what a clean shutdown leaves: locks, owners, checkpoints, failures."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from stratalog.directory.clean_state import NOTE
from stratalog.directory.recovery.progress import Phase
from stratalog.directory.recovery.recover import recover_directories
from stratalog.directory.recovery.result import Outcome
from stratalog.engine.progress import Progress
from stratalog.errors import DiskError, FileOwnerError, LogDirLockedError, UsageError
from stratalog.files.disk import Disk, ReadFile
from stratalog.files.lock import DirectoryLock, is_locked
from stratalog.log.recovery.facts import FindingKind
from stratalog.log.recovery.manifest import MANIFEST
from tests import profile
from tests.directory.recovery.recovering import (
    EPOCH_OF_CLEAN,
    HIGH_WATERMARKS,
    LOG_STARTS,
    MARKER,
    NO_EPOCH,
    RECOVERY_POINTS,
    SERVER,
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
from tests.fixtures import catalog


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


def test_what_is_not_a_partition_is_left_alone(killed: Path) -> None:
    before = files_of(killed)

    report = recover_one(killed)

    after = files_of(killed)
    alone = [name for name in before if name.startswith(("__cluster_metadata-0/", "short-lived-0."))]
    assert alone
    assert {name: after[name] for name in alone} == {name: before[name] for name in alone}
    assert {name for name in after if name.split("/")[0] in report.left_alone} == set(alone)


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


def test_all_reads_every_byte_of_every_log(clean: Path) -> None:
    report = recover_one(clean, scan_all=True)

    logs = {
        part.name: sum(path.stat().st_size for path in (clean / part.name).glob("*.log"))
        for part in report.partitions
    }
    assert {part.name: part.scanned_bytes for part in report.partitions} == logs


class ReadingDisk(Disk):
    """A disk that notes which bytes of which log were read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: dict[str, list[tuple[int, int]]] = {}

    def read_into(self, source, buffer, position, identity=None):  # type: ignore[no-untyped-def]
        size = super().read_into(source, buffer, position, identity)
        self._note(source.path if isinstance(source, ReadFile) else os.fspath(source), position, size)
        return size

    def read_at(self, path, size, position, identity=None):  # type: ignore[no-untyped-def]
        data = super().read_at(path, size, position, identity)
        self._note(os.fspath(path), position, len(data))
        return data

    def _note(self, path: str, position: int, size: int) -> None:
        if path.endswith(".log") and "__cluster_metadata" not in path:
            self.reads.setdefault(path, []).append((position, position + size))


@pytest.mark.parametrize("lost", [None, ".index", ".timeindex", ".snapshot"])
def test_no_byte_of_a_log_is_read_twice(killed: Path, lost: str | None) -> None:
    """Whatever a segment is wanted for: to be checked, for an index, for producers of those behind it."""
    (killed / RECOVERY_POINTS).unlink()
    if lost is not None:
        for path in killed.glob(f"*-0/*{lost}"):
            path.unlink()
    disk = ReadingDisk()

    report = recover_one(killed, disk=disk)

    assert report.outcome is Outcome.RECOVERED
    logs = [path for path in killed.glob("*-0/*.log") if path.parent.name != "__cluster_metadata-0"]
    assert {path: reads for path, reads in disk.reads.items() if reads != [(0, 0)]} == {
        str(path): [(0, path.stat().st_size)] for path in logs if path.stat().st_size
    }


def test_of_a_clean_directory_only_the_ends_of_logs_are_read(clean: Path) -> None:
    disk = ReadingDisk()

    recover_one(clean, disk=disk)

    for partition in catalog.partitions("4.3.1", "clean"):
        log = clean / partition.name / partition.logs[-1].name
        entries = log.with_suffix(".index").read_bytes()
        last_indexed = int.from_bytes(entries[-4:], "big")
        if partition.name != "__cluster_metadata-0" and log.stat().st_size:
            assert min(start for start, _ in disk.reads[str(log)]) == last_indexed


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


def test_files_of_another_user_are_refused_unless_root_keeps_their_owner(killed: Path) -> None:
    before = files_of(killed)

    with pytest.raises(FileOwnerError) as refusal:
        recover(killed, user=os.getuid() + 4711)

    assert refusal.value.owner == os.getuid()
    assert files_of(killed) == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_root_leaves_every_file_to_its_owner(killed: Path) -> None:
    for path in [killed, *killed.rglob("*")]:
        os.chown(path, 4711, 4712)

    recover_one(killed)

    assert {(path.stat().st_uid, path.stat().st_gid) for path in killed.rglob("*")} == {(4711, 4712)}


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
    recover(once, disk=counting, **options)
    wanted = comparable(once)
    assert counting.changes > 20

    every = 1 if profile.current() == profile.DEEP else 3  # the crash sweep has all of them, simulated
    for last in range(1, counting.changes + 1, every):
        directory = tmp_path / f"again-{last}"
        shutil.copytree(source, directory)
        with pytest.raises(Killed):
            recover(directory, disk=MortalDisk(last), **options)
        recover(directory, **options)

        assert comparable(directory) == wanted, f"killed before change {last} of {counting.changes}"
        shutil.rmtree(directory)


def comparable(directory: Path) -> dict[str, bytes]:
    """The files, without what is different each time: when something was put into quarantine."""
    found = files_of(directory)
    lines = [json.loads(line) for line in found.pop(MANIFEST, b"").splitlines() if line]
    told = [{key: line[key] for key in ("partition", "file", "position", "size", "parts")} for line in lines]
    return {**found, MANIFEST: json.dumps(told).encode()}


def test_salvage_keeps_what_is_whole_behind_the_damage_and_promises_nothing(killed: Path) -> None:
    log = killed / "idempotent-0" / "00000000000000000000.log"
    (killed / RECOVERY_POINTS).unlink()
    damage(log)

    report = recover(killed, salvage=True, process_crash=True)

    (found,) = [part for part in report.directories[0].partitions if part.name == "idempotent-0"]
    assert found.log_end_offset == ends_by_kafka("killed")["idempotent-0"]
    assert FindingKind.GAP in {finding.kind for finding in found.findings}
    assert marker(killed) == NO_EPOCH


def test_a_missing_topic_id_is_written_where_the_cluster_knows_it(killed: Path) -> None:
    file = killed / "codecs-0" / "partition.metadata"
    before = file.read_bytes()
    file.unlink()

    report = recover_one(killed)

    assert file.read_bytes() == before
    assert [problem.name for problem in report.problems] == ["codecs-0"]


def test_a_topic_that_the_cluster_does_not_know_is_reported(killed: Path) -> None:
    (killed / "codecs-0").rename(killed / "unknown-0")
    (killed / "unknown-0" / "partition.metadata").unlink()

    report = recover_one(killed)

    assert not (killed / "unknown-0" / "partition.metadata").exists()
    assert "-stray" in report.problems[0].consequence


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


def test_a_directory_named_twice_is_wrong_usage(killed: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(killed)

    with pytest.raises(UsageError):
        recover(killed, tmp_path / "link")


def test_progress_counts_down_to_nothing(killed: Path) -> None:
    events: list[Progress] = []

    recover_directories([str(killed)], server=SERVER, on_progress=events.append)

    assert [events[0].stage, events[-1].stage] == [Phase.SURVEYING, Phase.DONE]
    assert (events[-1].logs_remaining, events[-1].segments_remaining) == (0, 0)


def test_more_readers_find_the_same(killed: Path, tmp_path: Path) -> None:
    other = copy_of("killed", tmp_path / "other")

    one, many = recover_one(killed, readers=1), recover_one(other, readers=5)

    assert one.partitions == many.partitions
    assert files_of(killed) == files_of(other)
