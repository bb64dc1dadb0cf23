"""Where a partition belongs: its lock, clean-shutdown file and start, alone or in a broker's directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import stratalog
from stratalog import open_log
from stratalog.errors import CorruptCheckpointError, LogDirLockedError, NeedsRecoveryError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.disk import Path as DiskPath
from stratalog.files.lock import DirectoryLock
from tests.log.api.opened import CLEAN, LOCK, values


def test_the_torn_end_of_a_log_is_cut_off_and_kept_beside_it(directory: Path) -> None:
    with open_log(directory, create=True) as log:
        log.append(b"a")
    (directory / CLEAN).unlink()
    file = directory / f"{0:020d}.log"
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:-1])

    with open_log(directory) as log:
        assert values(log.records()) == [b"a"]

    assert file.read_bytes() == whole
    (kept,) = directory.parent.glob("stratalog-quarantine-*.log-*")
    assert kept.read_bytes() == whole[:-1]


def test_a_log_that_is_marked_clean_and_is_not_is_recovered(directory: Path) -> None:
    with open_log(directory, create=True) as log:
        log.append(b"a")
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    (directory / f"{0:020d}.index").unlink()

    open_log(directory).close()

    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_a_topic_id_is_written_once_and_never_changed(directory: Path) -> None:
    topic_id = UUID("0959a673-9137-4afa-be3e-d7d9d3ad9c7e")
    with open_log(directory, create=True, topic_id=topic_id) as log:
        assert log.topic_id == topic_id
    assert (directory / "partition.metadata").read_text() == "version: 0\ntopic_id: CVmmc5E3Svq-PtfZ062cfg"

    open_log(directory, topic_id="CVmmc5E3Svq-PtfZ062cfg").close()
    with pytest.raises(UsageError, match="cannot be"):
        open_log(directory, topic_id=UUID(int=5))
    with pytest.raises(UsageError, match="not a topic id"):
        open_log(directory, topic_id="short")
    with open_log(directory) as log:
        assert log.topic_id == topic_id


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """What a broker left after a clean stop; it does not keep its lock file."""
    source = Path(__file__).parents[1] / "fixtures" / "kafka-4.3.1" / "clean" / "logs"
    return Path(shutil.copytree(source, tmp_path / "logs"))


def test_the_broker_s_own_mark_and_lock_are_used(log_dir: Path) -> None:
    before = (log_dir / CLEAN).read_bytes()

    with open_log(log_dir / "codecs-0") as log:
        assert not (log_dir / CLEAN).exists()
        assert not (log_dir / "codecs-0" / LOCK).exists()
        with pytest.raises(LogDirLockedError):
            open_log(log_dir / "txn-0")
        log.append(b"ours")

    assert (log_dir / CLEAN).read_bytes() == before
    assert not (log_dir / "codecs-0" / CLEAN).exists()


def test_a_lock_that_nobody_holds_makes_no_log_directory(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("of another program")

    open_log(tmp_path / "orders-0", create=True).close()

    assert (tmp_path / "orders-0" / CLEAN).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [LOCK, "orders-0"]


def test_a_directory_whose_lock_is_held_is_somebody_s_log_directory(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path), pytest.raises(LogDirLockedError):
        open_log(tmp_path / "orders-0", create=True)

    assert [path.name for path in tmp_path.iterdir()] == [LOCK]


def test_without_the_broker_s_mark_its_partitions_need_recovery(log_dir: Path) -> None:
    (log_dir / CLEAN).unlink()

    with pytest.raises(NeedsRecoveryError):
        open_log(log_dir / "codecs-0")


def test_a_new_partition_is_not_made_in_an_unclean_directory(log_dir: Path) -> None:
    (log_dir / CLEAN).unlink()

    with pytest.raises(NeedsRecoveryError, match=f"Run `stratalog recover {log_dir}` first"):
        open_log(log_dir / "new-0", create=True)

    assert not (log_dir / CLEAN).exists()
    assert not (log_dir / "new-0").exists()


def test_a_new_partition_leaves_a_clean_directory_clean(log_dir: Path) -> None:
    before = (log_dir / CLEAN).read_bytes()

    open_log(log_dir / "new-0", create=True).close()

    assert (log_dir / CLEAN).read_bytes() == before


def test_a_directory_that_a_broker_never_ran_on_takes_a_new_partition(log_dir: Path, tmp_path: Path) -> None:
    formatted = tmp_path / "formatted"
    formatted.mkdir()
    shutil.copy(log_dir / "meta.properties", formatted)

    open_log(formatted / "new-0", create=True).close()

    assert (formatted / CLEAN).read_bytes() == b'{"version":0,"brokerEpoch":-1}'


def test_a_log_by_its_real_path_and_by_a_link_in_the_broker_s_directory(
    log_dir: Path, tmp_path: Path
) -> None:
    (log_dir / "codecs-0").rename(tmp_path / "codecs-0")
    (log_dir / "codecs-0").symlink_to(tmp_path / "codecs-0")

    with open_log(log_dir / "codecs-0"), pytest.raises(LogDirLockedError):
        open_log(tmp_path / "codecs-0")

    assert (log_dir / CLEAN).exists()


def test_a_partition_that_needs_recovery_leaves_the_others_clean(log_dir: Path) -> None:
    before = (log_dir / CLEAN).read_bytes()
    next((log_dir / "codecs-0").glob("*.index")).unlink()

    with pytest.raises(NeedsRecoveryError, match="no offset index"):
        open_log(log_dir / "codecs-0")

    assert (log_dir / CLEAN).read_bytes() == before
    open_log(log_dir / "txn-0").close()


@pytest.mark.parametrize(
    ("name", "damage", "error"),
    [
        ("leader-epoch-checkpoint", lambda data: b"garbage\n" + data, CorruptCheckpointError),
        (f"{10:020d}.log", lambda data: data[:16] + b"\x09" + data[17:], NeedsRecoveryError),
        (f"{10:020d}.log", lambda data: data + data[:30], NeedsRecoveryError),
    ],
)
def test_an_open_that_fails_leaves_the_directory_as_it_was(
    log_dir: Path, name: str, damage: Callable[[bytes], bytes], error: type[stratalog.StratalogError]
) -> None:
    file = log_dir / "headers-0" / name
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    (log_dir / LOCK).touch()
    before = {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}

    with pytest.raises(error):
        open_log(log_dir / "headers-0")

    assert {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()} == before
    file.write_bytes(whole)
    open_log(log_dir / "headers-0").close()


class InterruptedDisk(Disk):
    """Ctrl-C comes while the sizes are listed, which is when the log is loaded."""

    def list_sizes(self, path: DiskPath, suffix: str) -> dict[str, int]:
        del path, suffix
        raise KeyboardInterrupt


def test_an_interrupted_open_lets_go_of_the_log(directory: Path) -> None:
    open_log(directory, create=True).close()

    with pytest.raises(KeyboardInterrupt):
        open_log(directory, disk=InterruptedDisk())

    open_log(directory).close()


class Journal(Disk):
    """Notes which files are deleted and replaced, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: list[str] = []

    def delete(self, path: DiskPath) -> bool:
        if not os.fspath(path).endswith(".tmp"):
            self.changed.append(Path(path).name)
        return super().delete(path)

    def replace(self, path: DiskPath, data: Any) -> None:
        self.changed.append(Path(path).name)
        super().replace(path, data)


def test_the_mark_is_taken_away_before_anything_is_changed(directory: Path) -> None:
    open_log(directory, create=True).close()
    (directory / f"{0:020d}.log.deleted").touch()
    disk = Journal()

    log = open_log(directory, topic_id=UUID(int=5), disk=disk)

    assert disk.changed[:3] == [CLEAN, "partition.metadata", f"{0:020d}.log.deleted"]
    log.close()


def test_the_start_of_a_broker_s_log_is_in_its_checkpoint(log_dir: Path) -> None:
    lines = (log_dir / "log-start-offset-checkpoint").read_text().splitlines()[2:]
    (start,) = [int(line.split()[2]) for line in lines if line.startswith("trimmed 0 ")]

    with open_log(log_dir / "trimmed-0", read_only=True) as view:
        assert view.start_offset == start
    with open_log(log_dir / "trimmed-0") as log:
        assert log.start_offset == start
        log.delete_records(start + 1)

    assert f"trimmed 0 {start + 1}\n" in (log_dir / "log-start-offset-checkpoint").read_text()


def test_deleted_records_are_not_shown_before_the_log_directory_has_taken_the_log_over(
    directory: Path,
) -> None:
    with open_log(directory, create=True) as log:
        log.append_many([b"%d" % number for number in range(80)])
        log.delete_records(50)
    (directory.parent / "recovery-point-offset-checkpoint").write_text("0\n0\n")

    with open_log(directory, read_only=True) as view:
        assert (view.start_offset, view.end_offset) == (50, 80)


def test_the_epoch_of_the_last_leader_goes_on(log_dir: Path) -> None:
    with open_log(log_dir / "codecs-0") as log:
        log.append(b"ours")
        (record,) = log.records(log.end_offset - 1)
        known = log.log.epochs.latest_epoch

    assert record.leader_epoch == known


def test_a_directory_that_a_broker_gave_up_is_not_opened(log_dir: Path) -> None:
    (given_up,) = log_dir.glob("*-delete")

    with pytest.raises(UsageError, match="marked it as"):
        open_log(given_up)


STARTS = "log-start-offset-checkpoint"


@pytest.mark.parametrize("damage", [b"garbage\n", b"0\n9\n", b"0\n1\norders x 20\n", b"\xff"])
def test_a_lone_log_whose_start_is_damaged_opens_and_says_what_is_visible_again(
    directory: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with open_log(directory, create=True) as log:
        log.append_many([b"%d" % number for number in range(30)])
        log.delete_records(20)
    (directory / STARTS).write_bytes(damage)

    with open_log(directory, read_only=True) as view:
        assert (view.start_offset, view.end_offset, len([*view.records()])) == (0, 30, 30)
    assert caplog.text.count("deleted may be visible again") == 1
    with open_log(directory) as log:
        assert (log.start_offset, log.end_offset) == (0, 30)
    assert (directory / CLEAN).exists()

    caplog.clear()
    with open_log(directory) as log:  # the damaged file was replaced
        assert log.delete_records(7) == 7
    with open_log(directory) as log:
        assert log.start_offset == 7
    assert not caplog.text


def test_a_lone_log_whose_start_is_damaged_while_it_is_open_goes_on_and_closes(directory: Path) -> None:
    log = open_log(directory, create=True)
    log.append_many([b"%d" % number for number in range(30)])
    log.delete_records(20)
    (directory / STARTS).write_text("garbage\n")

    log.append(b"more")
    assert log.delete_records(25) == 25
    (directory / STARTS).write_text("garbage\n")
    log.close()

    assert (directory / CLEAN).exists()
    with open_log(directory) as again:
        assert (again.start_offset, again.end_offset) == (25, 31)


def test_a_close_beside_a_damaged_checkpoint_of_the_broker_raises_nothing_for_flushed_records(
    log_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(log_dir / "new-0", create=True)
    log.append(b"a")
    (log_dir / STARTS).write_text("garbage\n")

    log.close()

    assert "has every record" in caplog.text
    assert not (log_dir / CLEAN).exists()


def test_a_log_whose_lock_was_deleted_is_not_closed_in_silence(directory: Path) -> None:
    """Another program may have locked and changed the log since, and its records are gone then."""
    log = open_log(directory, create=True)
    log.append(b"ours")
    (directory / LOCK).unlink()

    with pytest.raises(LogDirLockedError, match="the lock was lost"):
        log.close()

    assert not (directory / CLEAN).exists()
    with open_log(directory) as again:
        assert values(again.records()) == [b"ours"]
