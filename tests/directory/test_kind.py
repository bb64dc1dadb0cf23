"""Is this a log directory? Brokers' own directories, and what people name instead of one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stratalog import LogManager, open_log
from stratalog.cli import main
from stratalog.directory.kind import (
    Kind,
    are_brokers,
    check_log_directory,
    check_place,
    is_of_log_directory,
    kind_of,
)
from stratalog.errors import NotALogDirectoryError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.jobs.writing.options import WriteOptions
from stratalog.jobs.writing.target import find_target
from stratalog.operations.maintaining import Maintenance
from stratalog.operations.retain import Retention
from tests.fixtures import catalog


@pytest.fixture
def brokers(tmp_path: Path) -> Path:
    (source,) = catalog.log_dirs("4.3.1", "killed")
    return Path(shutil.copytree(source, tmp_path / "disks" / "data-1"))


def kind(path: Path) -> Kind:
    return kind_of(Disk(), path).kind


def words(path: Path) -> str:
    with pytest.raises(NotALogDirectoryError) as caught:
        check_log_directory(Disk(), path)
    return str(caught.value)


def all_files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


@pytest.mark.parametrize("state", ["killed", "clean"])
@pytest.mark.parametrize("release", ["2.8.2", "3.9.2", "4.3.1"])
def test_what_a_broker_left_is_a_brokers(release: str, state: str) -> None:
    found = catalog.log_dirs(release, state)

    assert found
    assert {kind(each) for each in found} == {Kind.BROKERS}


def test_a_brokers_directory_without_meta_properties_has_its_cluster_metadata(brokers: Path) -> None:
    (brokers / "meta.properties").unlink()

    assert kind(brokers) is Kind.BROKERS


def test_a_directory_beside_a_brokers_is_a_brokers(brokers: Path, tmp_path: Path) -> None:
    second = Path(shutil.copytree(brokers, tmp_path / "second"))
    (second / "meta.properties").unlink()
    shutil.rmtree(second / "__cluster_metadata-0")

    assert kind(second) is Kind.OURS
    assert not are_brokers(Disk(), [second])
    assert are_brokers(Disk(), [second, brokers])


def test_a_managers_directory_needs_nothing_of_a_brokers(tmp_path: Path) -> None:
    with LogManager([tmp_path / "data"]) as manager:
        manager.get_or_create_log(TopicPartition("orders", 0), is_new=True)
        while_open = kind(tmp_path / "data")

    assert (while_open, kind(tmp_path / "data")) == (Kind.OURS, Kind.OURS)


def test_a_directory_of_logs_that_were_open_by_themselves_is_one(tmp_path: Path) -> None:
    with open_log(tmp_path / "data" / "orders-0", create=True) as log:
        log.append(b"a")

    assert kind(tmp_path / "data") is Kind.OURS


@pytest.mark.parametrize("name", [".lock", ".kafka_cleanshutdown", "stratalog-write.json", "orders-0/.lock"])
def test_the_first_file_of_a_new_log_directory_makes_it_one(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()

    assert kind(tmp_path) is Kind.OURS


def test_the_parent_of_log_directories_is_told_with_their_names(brokers: Path) -> None:
    shutil.copytree(brokers, brokers.with_name("data-2"))
    parent = brokers.parent

    assert kind(parent) is Kind.PARENT
    assert f"it contains 2 log directories: name them: {parent}/data-1, {parent}/data-2." in words(parent)


def test_a_parent_that_was_marked_clean_before_is_still_one(brokers: Path) -> None:
    (brokers.parent / ".kafka_cleanshutdown").touch()

    assert f"it contains a log directory: name that directory: {brokers}." in words(brokers.parent)


def test_the_parent_of_a_managers_directory_that_was_never_checkpointed_is_told(tmp_path: Path) -> None:
    log = tmp_path / "data-1" / "orders-0" / "00000000000000000000.log"
    log.parent.mkdir(parents=True)
    log.touch()

    assert kind(tmp_path) is Kind.PARENT


def test_one_partitions_directory_is_told_with_the_one_it_is_in(brokers: Path) -> None:
    assert f"the directory of one partition. Name the log directory that it is in: {brokers}." in words(
        brokers / "rolled-0"
    )


def test_an_empty_mount_point_is_told(tmp_path: Path) -> None:
    assert "it is empty. Check log.dirs, and whether the disk is mounted here." in words(tmp_path)


def test_lost_and_found_alone_is_an_empty_mount_point(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()

    assert kind(tmp_path) is Kind.EMPTY
    assert "it contains only lost+found." in words(tmp_path)


def test_a_missing_path_is_told(tmp_path: Path) -> None:
    assert "it does not exist." in words(tmp_path / "none")


def test_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert "it is not a directory." in words(tmp_path / "file")


def test_a_folder_of_something_else_is_told_though_its_folders_end_in_numbers(tmp_path: Path) -> None:
    (tmp_path / "llvm-14" / "bin").mkdir(parents=True)
    (tmp_path / "firmware-5").mkdir()
    (tmp_path / "os-release").touch()
    (tmp_path / ".lock").touch()

    assert kind(tmp_path) is Kind.OTHER
    assert "it contains no partition and no checkpoint, but llvm-14, os-release." in words(tmp_path)


@pytest.mark.parametrize("path", ["/", "/etc", "/usr", "/usr/lib", "/var", "/proc"])
def test_a_system_folder_is_no_log_directory(path: str) -> None:
    assert not kind_of(Disk(), path).is_log_directory


def test_a_manager_refuses_the_parent_and_changes_nothing(brokers: Path) -> None:
    before = all_files(brokers.parent)

    with pytest.raises(NotALogDirectoryError, match="name that directory"):
        LogManager([brokers.parent]).startup()

    assert all_files(brokers.parent) == before


@pytest.mark.parametrize("name", ["empty", "missing"])
def test_a_manager_makes_a_log_directory_where_nothing_is(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    with LogManager([tmp_path / name]) as manager:
        manager.get_or_create_log(TopicPartition("orders", 0), is_new=True)

    assert kind(tmp_path / name) is Kind.OURS


def test_a_sink_refuses_a_folder_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()

    with pytest.raises(NotALogDirectoryError, match="but bin"):
        find_target(Disk(), WriteOptions.parse({"path": str(tmp_path), "partitions": "1"}))


@pytest.mark.parametrize("dry_run", [True, False])
def test_maintenance_refuses_an_empty_directory_and_changes_nothing(dry_run: bool, tmp_path: Path) -> None:
    with pytest.raises(NotALogDirectoryError, match="it is empty"):
        Maintenance(directories=[str(tmp_path)], dry_run=dry_run).run(Retention())

    assert all_files(tmp_path) == []


@pytest.mark.parametrize("place", ["rolled-0", "rolled-0/kept", "kept", "kept/here", "__cluster_metadata-0"])
@pytest.mark.parametrize("option", ["--quarantine", "--work-dir"])
def test_quarantine_could_be_a_place_that_a_broker_stumbles_over(
    brokers: Path, capsys: pytest.CaptureFixture[str], place: str, option: str
) -> None:
    (brokers / place).mkdir(parents=True, exist_ok=True)
    before = all_files(brokers)

    for more in ([], ["--dry-run"]):
        assert main.run(["recover", str(brokers), option, str(brokers / place), *more]) == 2

        said = capsys.readouterr().err
        assert f"{option} {brokers / place}: this is " in said
        assert "Name a directory outside of the log directories, or a log directory itself." in said
    assert all_files(brokers) == before


def test_a_quarantine_in_another_brokers_directory_is_refused(brokers: Path, tmp_path: Path) -> None:
    (source,) = catalog.log_dirs("4.3.1", "clean")
    other = Path(shutil.copytree(source, tmp_path / "other"))
    (other / "kept").mkdir()

    with pytest.raises(UsageError, match=f"inside the log directory {other}"):
        check_place(Disk(), str(other / "kept"), [str(brokers)], option="--quarantine")
    check_place(Disk(), str(other), [str(brokers)], option="--quarantine")


def test_erase_does_not_lock_a_partition_as_its_quarantine(
    brokers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["erase", str(brokers), "--topic", "rolled", "--key", "k", "--recover"]

    assert main.run([*asked, "--quarantine", str(brokers / "rolled-0")]) == 2

    assert "this is the directory of a partition" in capsys.readouterr().err
    assert not (brokers / "rolled-0" / ".lock").exists()


def test_open_log_does_not_keep_its_cuts_among_the_segments(tmp_path: Path) -> None:
    open_log(tmp_path / "orders-0", create=True).close()

    with pytest.raises(UsageError, match=r"quarantine .*: this is the directory of a partition"):
        open_log(tmp_path / "orders-0", quarantine=tmp_path / "orders-0")


def test_the_record_of_erasures_is_a_file_of_ours() -> None:
    assert is_of_log_directory("stratalog-erased.jsonl")
    assert not is_of_log_directory("stratalog-other.jsonl")
