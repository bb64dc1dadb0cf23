"""One listing of the partitions of a log directory, with what the directory keeps for each."""

from __future__ import annotations

import errno
import shutil
from os import PathLike
from pathlib import Path
from typing import NoReturn

import pytest

import stratalog
from stratalog.directory.layout import LOADED
from stratalog.directory.partitions import list_partitions, partition_at
from stratalog.errors import DiskError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.names import DirectoryState, TopicPartition
from stratalog.files.reading import DiskReader
from stratalog.log.log_end import NOT_CLOSED, Left
from tests.fixtures.catalog import log_dirs
from tests.manager.running import fixture_copy

TRIMMED_START = 17  # by the broker's own log-start-offset-checkpoint
TRIMMED = TopicPartition("trimmed", 0)


def offsets_in(path: Path) -> dict[TopicPartition, int]:
    """A broker's checkpoint, read by hand."""
    lines = [line.split() for line in path.read_text().splitlines()[2:]]
    return {TopicPartition(topic, int(number)): int(offset) for topic, number, offset in lines}


@pytest.mark.parametrize(("state", "was_closed"), [("clean", True), ("killed", False)])
def test_a_broker_s_directory_says_how_each_log_was_left(state: str, was_closed: bool) -> None:
    (logs,) = log_dirs("4.3.1", state)
    points = offsets_in(logs / "recovery-point-offset-checkpoint")
    watermarks = offsets_in(logs / "replication-offset-checkpoint")

    found = list_partitions(Disk(), str(logs))

    names = {path.name for path in logs.iterdir() if path.is_dir() and path.name.rpartition("-")[2].isdigit()}
    assert {Path(each.directory).name for each in found} == names
    assert "__cluster_metadata-0" in names
    for each in found:
        key = each.topic_partition
        assert each.left == Left(was_closed, points.get(key, 0), watermarks.get(key, 0))
        assert each.state is DirectoryState.LIVE
    (trimmed,) = [each for each in found if each.topic_partition == TRIMMED]
    assert trimmed.log_start_offset == TRIMMED_START
    assert trimmed.entry.name == "trimmed-0"


def test_the_directory_of_one_partition_is_found_with_what_its_parent_keeps() -> None:
    (logs,) = log_dirs("4.3.1", "clean")

    found = partition_at(Disk(), str(logs / "trimmed-0"))

    assert found is not None
    assert (found.topic_partition, found.log_start_offset) == (TRIMMED, TRIMMED_START)
    assert found.is_named
    assert found.left.was_closed


def test_a_log_directory_that_is_called_like_a_partition_is_none(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "kafka-1")

    assert partition_at(Disk(), str(data)) is None
    assert len(list_partitions(Disk(), str(data))) == len(
        list_partitions(Disk(), str(log_dirs("4.3.1", "clean")[0]))
    )


def test_copies_and_what_is_deleted_are_listed_if_asked_for(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data", without_waiting=True)
    mark = "0123456789abcdef0123456789abcdef"
    shutil.copytree(data / "rolled-0", data / f"rolled-0.{mark}-future")
    shutil.copytree(data / "rolled-0", data / f"rolled-0.{mark}-delete")
    (data / "lost+found").mkdir()

    live, loaded = list_partitions(Disk(), str(data)), list_partitions(Disk(), str(data), LOADED)

    assert {Path(each.directory).name for each in loaded if each not in live} == {f"rolled-0.{mark}-future"}


@pytest.mark.parametrize("state", ["delete", "stray", "future"])
def test_only_a_copy_has_the_checkpoints_of_its_topic(tmp_path: Path, state: str) -> None:
    """A deleted or stray log may be shorter than the log of the topic that was created again."""
    data = fixture_copy("clean", tmp_path / "data", without_waiting=True)
    name = f"rolled-0.0123456789abcdef0123456789abcdef-{state}"
    shutil.copytree(data / "rolled-0", data / name)
    (live,) = [each for each in list_partitions(Disk(), str(data)) if each.entry.name == "rolled-0"]

    (found,) = [
        each for each in list_partitions(Disk(), str(data), DirectoryState) if each.entry.name == name
    ]

    assert live.left.known_end > 0
    assert found.left == (live.left if state == "future" else Left(was_closed=True))


@pytest.mark.parametrize(
    "error", [DiskError(".lock", "no permission.", errno.EACCES), UsageError("no locks here")]
)
def test_a_directory_whose_lock_cannot_be_seen_may_be_in_use(error: Exception) -> None:
    class NoLocks(DiskReader):
        """A storage that cannot say who holds a lock. All questions about locks go to the reader."""

        def is_in_use(self, directory: str | PathLike[str]) -> NoReturn:
            assert directory == str(data)
            raise error

    (data,) = log_dirs("4.3.1", "clean")
    assert {each.left.is_in_use for each in list_partitions(DiskReader(), str(data))} == {False}

    found = list_partitions(NoLocks(), str(data))

    assert {each.left.is_in_use for each in found} == {True}
    named = partition_at(NoLocks(), str(data / "rolled-0"))
    assert named is not None
    assert named.left.is_in_use


def test_logs_that_are_by_themselves_keep_their_own_start_and_close(tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "a-0", create=True) as log:
        log.append_many([stratalog.NewRecord(b"x")] * 5)
        log.delete_records(3)
    shutil.copytree(tmp_path / "a-0", tmp_path / "b-0")
    (tmp_path / "b-0" / ".kafka_cleanshutdown").unlink()
    (tmp_path / "b-0" / "log-start-offset-checkpoint").write_text("0\n1\nb 0 2\n")

    found = {str(each.topic_partition): each for each in list_partitions(Disk(), str(tmp_path))}

    assert (found["a-0"].log_start_offset, found["a-0"].left) == (3, Left(was_closed=True))
    assert (found["b-0"].log_start_offset, found["b-0"].left) == (2, NOT_CLOSED)


@pytest.mark.parametrize("name", ["log-start-offset-checkpoint", "recovery-point-offset-checkpoint"])
def test_one_garbled_checkpoint_does_not_stop_a_listing(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = fixture_copy("killed", tmp_path / "data")
    (data / name).write_bytes(bytes(8))

    found = list_partitions(Disk(), str(data))

    assert {each.log_start_offset for each in found} == ({0} if "start" in name else {0, TRIMMED_START})
    (warning,) = caplog.messages
    assert warning.startswith(str(data / name))
    assert warning.endswith("the file is treated as empty.")


def test_an_empty_directory_has_no_partition(tmp_path: Path) -> None:
    assert list_partitions(Disk(), str(tmp_path)) == []
