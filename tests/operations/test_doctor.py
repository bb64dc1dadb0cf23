"""Whether a broker can be started, against what a real one does (tests/kafka/test_startup_refusals.py)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from stratalog import format_directories
from stratalog.errors import NotALogDirectoryError
from stratalog.files.lock import DirectoryLock
from stratalog.files.reading import DiskReader
from stratalog.operations.doctor import Checkup, DoctorReport
from tests.directory.lone import lone
from tests.directory.refused import ACCEPTED, REFUSED, with_second
from tests.manager.running import contents, fixture_copy
from tests.operations.test_recover_owners import as_nobody, reachable

__all__ = ["reachable"]

# A broker starts there, and sets the partition aside.
SHORT = {"the length of the last batch 1000000"}
STRAY = (
    "partition.metadata missing",
    "partition.metadata of an unknown topic",
    "a partition without anything",
)


def checked(*directories: Path) -> DoctorReport:
    return Checkup(directories=[str(directory) for directory in directories]).run()


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_broker_refuses_is_refused_here(name: str, tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    REFUSED[name].make(root)
    before = contents(root)

    report = checked(root)

    assert (report.may_start, report.status) == (False, 3)
    assert all(refusal.remedy for refusal in report.refusals)
    assert "will not start" in report.verdict
    assert contents(root) == before


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_a_broker_takes_is_no_finding(name: str, tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    ACCEPTED[name](root)

    report = checked(root)

    assert report.may_start
    assert report.status == (1 if name in STRAY or name in SHORT else 0)


class PartlyReadOnly(DiskReader):
    """A machine on which some directories are on a read-only mount."""

    def __init__(self, *places: Path) -> None:
        self._places = [str(place) for place in places]

    def is_read_only(self, path: object) -> bool:
        return str(path) in self._places


def test_a_broker_starts_without_a_directory_on_a_read_only_mount(tmp_path: Path) -> None:
    first = fixture_copy("clean", tmp_path / "data")
    second = with_second(first)
    paths = [str(first), str(second)]

    one = Checkup(directories=paths, disk=PartlyReadOnly(second)).run()
    metadata = Checkup(directories=paths, disk=PartlyReadOnly(first)).run()

    assert (one.starts, one.status, metadata.starts, metadata.status) == (True, 3, False, 3)
    assert [(each.kind.value, each.path) for each in one.refusals] == [("read_only", str(second))]
    assert f"it takes {second} offline" in one.verdict


def test_log_dirs_that_names_a_directory_twice_is_a_fault_of_the_broker(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    (tmp_path / "link").symlink_to(root)
    paths = [str(root), str(tmp_path / "link")]

    report = Checkup(directories=paths, siblings=paths).run()

    assert (report.starts, report.status) == (False, 3)
    assert [(each.kind.value, each.path) for each in report.refusals] == [("twice", str(root))]
    assert report.refusals[0].remedy == f"Remove {paths[1]} from log.dirs."
    assert len(report.states) == 1


CHECKPOINT = "recovery-point-offset-checkpoint"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
OWNER = 1001  # some user, who is neither root nor nobody


@pytest.fixture
def of_another(reachable: Path) -> Path:
    """A clean directory that belongs to another user, and that everybody may read."""
    root = fixture_copy("clean", reachable / "data")
    for path in (root, *root.rglob("*")):
        os.chown(path, OWNER, OWNER)
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert checked(root).may_start  # compiles the kernels, which user nobody cannot
    return root


@as_root
def test_the_broker_was_blamed_for_a_file_that_only_this_user_may_not_read(of_another: Path) -> None:
    (of_another / CHECKPOINT).chmod(0o600)

    with as_nobody():
        report = checked(of_another)

    (found,) = report.refusals
    assert (found.kind.value, found.path) == ("not_seen", str(of_another / CHECKPOINT))
    assert found.reason == "User 65534, who runs this command, may not read it."
    assert "user 1001, who owns the log directory" in found.remedy
    assert (report.starts, report.may_start, report.status) == (True, False, 3)
    assert report.verdict == (
        "It is not known whether the broker can be started: this user may not read "
        f"{of_another / CHECKPOINT}."
    )
    assert checked(of_another).may_start


@as_root
def test_a_file_that_the_owner_may_not_read_either_keeps_the_broker_from_starting(of_another: Path) -> None:
    (of_another / CHECKPOINT).chmod(0o600)
    os.chown(of_another / CHECKPOINT, 0, 0)

    with as_nobody():
        report = checked(of_another)

    assert {refusal.kind.value for refusal in report.refusals} == {"unreadable", "owner"}
    assert report.verdict.startswith("The broker will not start")


@as_root
def test_nobody_is_told_to_move_or_restore_what_could_not_be_seen(of_another: Path) -> None:
    for path in of_another.iterdir():
        path.chmod(0o700 if path.is_dir() else 0o600)

    with as_nobody():
        report = checked(of_another)

    assert {refusal.kind.value for refusal in report.refusals} == {"not_seen"}
    assert {refusal.remedy for refusal in report.refusals} == {
        "Run this command as root, or as user 1001, who owns the log directory."
    }
    assert len(report.refusals) == len({refusal.path for refusal in report.refusals})


@as_root
def test_a_known_reason_comes_before_what_could_not_be_seen(of_another: Path) -> None:
    (of_another / CHECKPOINT).chmod(0o600)
    (of_another / "rolled-0" / "partition.metadata").write_bytes(bytes(40))

    with as_nobody():
        report = checked(of_another)

    assert report.verdict == (
        "The broker will not start: it refuses to start because of "
        f"{of_another}/rolled-0/partition.metadata. Not everything was checked: this user may not read "
        f"{of_another / CHECKPOINT}."
    )


def test_a_clean_directory_has_nothing_to_read_again(tmp_path: Path) -> None:
    report = checked(fixture_copy("clean", tmp_path / "data"))

    assert report.verdict == "The broker can be started."
    assert report.totals()["bytes_to_read_again"] == 0
    assert report.states[0].partitions_count == 12


def test_one_of_two_directories_is_not_said_to_be_the_whole_node(tmp_path: Path) -> None:
    first = fixture_copy("clean", tmp_path / "data")
    second = with_second(first)

    assert "the cluster's metadata is not in these directories" in checked(second).verdict
    assert checked(first).verdict == "The broker can be started."


def test_what_is_read_again_are_the_segments_from_the_recovery_point_on(tmp_path: Path) -> None:
    root = fixture_copy("killed", tmp_path / "data")
    for path in root.glob("*-checkpoint"):
        path.unlink()
    everything = sum(log.stat().st_size for log in root.glob("[!_]*-[0-9]/*.log"))
    everything += sum(log.stat().st_size for log in root.glob("__[!c]*/*.log"))
    everything += sum(log.stat().st_size for log in root.glob("__consumer_offsets-0/*.log"))

    report = checked(root)

    assert report.states[0].unflushed_size == everything
    assert "was not shut down cleanly" in report.verdict
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\nrolled 0 50\n")
    later = sum(log.stat().st_size for log in (root / "rolled-0").glob("*.log") if int(log.stem) < 40)
    assert checked(root).states[0].unflushed_size == everything - later


def test_a_directory_that_is_in_use_is_said_to_be(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")

    with DirectoryLock(root):
        report = checked(root)

    assert report.states[0].is_in_use
    assert report.verdict == f"All is well. A broker or another program is using {root} now."


def test_what_is_not_a_log_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotALogDirectoryError):
        checked(tmp_path)


def test_a_directory_that_no_broker_has_used_was_said_to_be_startable(tmp_path: Path) -> None:
    lone(tmp_path / "orders-0", b"a")
    report = checked(tmp_path)
    assert (report.may_start, report.status) == (False, 3)
    assert report.refusals[0].remedy.startswith("Run `stratalog format`")
    assert Checkup(directories=[str(tmp_path)], is_controller=True).run().strays == ()  # after a format

    format_directories([tmp_path])

    assert checked(tmp_path).status == 0


def test_a_broker_that_goes_on_without_a_directory_starts(tmp_path: Path) -> None:
    first = fixture_copy("clean", tmp_path / "data")
    second = with_second(first)
    (second / "log-start-offset-checkpoint").write_bytes(bytes(8))

    report = checked(first, second)

    assert (report.starts, report.may_start, report.status) == (True, False, 3)
    assert f"must not be started yet: it takes {second} offline" in report.verdict


def test_copies_of_partitions_that_are_set_aside_were_said_to_be_there_twice(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    (root / "orders-0").mkdir()
    (root / "orders-00").mkdir()

    report = checked(root)

    assert report.may_start
    assert {stray.path for stray in report.strays} == {str(root / "orders-0"), str(root / "orders-00")}


def test_a_controller_without_metadata_was_said_to_serve_its_partitions(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    shutil.rmtree(root / "__cluster_metadata-0")

    report = Checkup(directories=[str(root)], is_controller=True).run()

    assert report.may_start
    assert len(report.strays) == 12
    assert "begins a new cluster" in report.strays[0].reason
    assert not checked(root).strays


def test_a_partition_that_the_cluster_lacks_was_set_aside_without_a_word(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    (root / "orders-0").mkdir()

    report = checked(root)

    assert [(stray.path, stray.reason) for stray in report.strays] == [
        (str(root / "orders-0"), "its topic's id is not known")
    ]
    assert "It does not serve 1 partition, which it will set aside as stray." in report.verdict
    assert report.totals()["strays"] == 1
    assert "create its topic on the broker" in report.strays[0].remedy


def test_a_stray_whose_topic_exists_was_told_to_create_its_topic(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    file = root / "rolled-0" / "partition.metadata"
    file.write_text("version: 0\ntopic_id: reGNe0_MHPkN7msm8w9sjg")
    (stray,) = checked(root).strays
    assert "no topic of the cluster has its id: rolled has " in stray.reason
    assert "delete this partition.metadata and run `stratalog recover --all`" in stray.remedy
    assert "create its topic" not in stray.remedy

    file.unlink()
    (stray,) = checked(root).strays
    assert stray.remedy.startswith("Run `stratalog recover --all`, which writes the id")


@pytest.mark.parametrize("state", ["clean", "killed"])
def test_a_partition_whose_folder_was_gone_was_no_finding(state: str, tmp_path: Path) -> None:
    root = fixture_copy(state, tmp_path / "data")
    shutil.rmtree(root / "codecs-0")

    report = checked(root)

    assert (report.may_start, report.status) == (True, 1)
    assert [(str(each.topic_partition), each.offset) for each in report.gone] == [("codecs-0", 120)]
    assert "Records are missing: 1 partition of the checkpoints is gone." in report.verdict
    (table,) = [each for each in report.tables() if each.title == "Partitions that are gone"]
    assert table.rows[0][0] == str(root / "codecs-0")
    assert "recovery-point-offset-checkpoint says offset 120" in table.rows[0][1]


def test_what_may_be_in_another_directory_of_log_dirs_is_not_gone(tmp_path: Path) -> None:
    first = fixture_copy("clean", tmp_path / "data")
    second = with_second(first)
    (first / "codecs-0").rename(second / "codecs-0")

    assert Checkup(directories=[str(first)], siblings=[str(first), str(second)]).run().gone == ()


@pytest.mark.parametrize("state", ["clean", "killed"])
def test_a_partition_whose_files_were_gone_was_no_finding(state: str, tmp_path: Path) -> None:
    root = fixture_copy(state, tmp_path / "data")
    for path in (root / "codecs-0").iterdir():
        if path.name != "partition.metadata":
            path.unlink()

    report = checked(root)

    assert report.status == 1
    assert [each.words for each in report.gone] == [
        "it has no segment, although recovery-point-offset-checkpoint says offset 120"
    ]
