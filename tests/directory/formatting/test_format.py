"""Directories become those of a stand-alone broker, once and for all, whatever interrupts it."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from stratalog import LogDirLockedError, NeedsRecoveryError, open_log
from stratalog.directory.checkpoints import DirectoryCheckpoints
from stratalog.directory.formatting.choices import FormatOptions
from stratalog.directory.formatting.format import format_directories
from stratalog.directory.formatting.result import FormatResult
from stratalog.errors import (
    ConfigError,
    CorruptCheckpointError,
    FileOwnerError,
    FormatRefusedError,
    NotALogDirectoryError,
    StratalogError,
    UsageError,
)
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.log.partition_metadata import topic_id_to_text
from tests import profile
from tests.directory.formatting.forming import (
    METADATA,
    check_formatted,
    format_on,
    metadata_of,
    on_a_simulated_disk,
)
from tests.directory.lone import left_open, lone
from tests.fixtures.catalog import log_dirs
from tests.jobs.writing.sinking import contents_of, names_in, write

SETTINGS = json.dumps({"orders": {"cleanup.policy": "compact", "segment.bytes": 2097152}})


def fmt(*directories: Path, **options: object) -> FormatResult:
    return format_directories(directories, FormatOptions(**options))  # type: ignore[arg-type]


def test_a_lone_log_becomes_a_topic_of_a_cluster(tmp_path: Path) -> None:
    lone(tmp_path / "orders-0", b"a", b"b")

    result = fmt(tmp_path, topic_settings=SETTINGS)

    check_formatted(Disk(), [str(tmp_path)], [str(tmp_path / "orders-0")])
    metadata = metadata_of(tmp_path)
    assert metadata.topic_configs == {"orders": {"cleanup.policy": "compact", "segment.bytes": "2097152"}}
    assert result.topics[0].topic_id == metadata.topic_id("orders")
    assert names_in(tmp_path / METADATA) == [f"{metadata.end_offset:020d}-{0:010d}.checkpoint"]
    with open_log(tmp_path / "orders-0") as log:  # by the directory's own session now
        assert [record.value for record in log.records()] == [b"a", b"b"]


def test_logs_without_a_high_watermark_get_their_end_and_others_keep_theirs(tmp_path: Path) -> None:
    lone(tmp_path / "orders-0", b"a", b"b")
    lone(tmp_path / "users-0", b"c")
    high_watermarks = DirectoryCheckpoints(Disk(), tmp_path).high_watermarks
    high_watermarks.write({TopicPartition("users", 0): 0})

    fmt(tmp_path)

    assert high_watermarks.read() == {("orders", 0): 2, ("users", 0): 0}


def test_partitions_of_a_topic_get_one_id_in_all_directories(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    lone(first / "orders-0", b"a")
    with open_log(second / "orders-1", create=True, topic_id="s38DPPefRHu4CKwEjdBcXA") as log:
        log.append(b"b")
    lone(second / "users-0", b"c")

    result = fmt(first, second)

    places = [str(first / "orders-0"), str(second / "orders-1"), str(second / "users-0")]
    check_formatted(Disk(), [str(first), str(second)], places)
    orders, users = result.topics
    assert orders.topic_id is not None
    assert topic_id_to_text(orders.topic_id) == "s38DPPefRHu4CKwEjdBcXA"
    assert (orders.is_new_id, users.is_new_id) == (False, True)
    assert [found.directory for found in orders.partitions] == [str(first), str(second)]


def test_the_number_of_partitions_that_the_sink_was_given_is_kept(tmp_path: Path) -> None:
    write(str(tmp_path), {"value": [b"a"], "partition": [2]}, topic="orders", partitions="6")

    result = fmt(tmp_path)

    assert len(result.topics[0].partitions) == 6
    assert result.topics[0].missing == (0, 1, 3, 4, 5)
    assert len(metadata_of(tmp_path).topics["orders"].replicas) == 6
    check_formatted(Disk(), [str(tmp_path)], [str(tmp_path / "orders-2")])


def test_new_directories_and_topics_are_made(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in "abc")
    second.mkdir()

    result = fmt(first, second, metadata_directory=str(third), partitions={"orders": 2}, node_id=7)

    assert [found.directory for found in result.topics[0].partitions] == [None, None]
    metadata = metadata_of(third)
    assert metadata.topics["orders"].replicas == {0: (7,), 1: (7,)}
    assert len(metadata.broker_directories[7]) == 2, "the directory of the metadata has no logs"
    assert not (third / ".kafka_cleanshutdown").exists()
    assert [(each / "meta.properties").exists() for each in (first, second, third)] == [True] * 3


def test_leader_epochs_go_on_from_those_in_the_log(tmp_path: Path) -> None:
    lone(tmp_path / "none-0")
    lone(tmp_path / "first-0", b"a")
    lone(tmp_path / "later-0", b"a")
    lone(tmp_path / "lost-0", b"a")
    for name in ("later-0", "lost-0"):
        with open_log(tmp_path / name) as log:
            log.log.assign_epoch_start_offset(4, 1)
            log.append(b"b")
    (tmp_path / "lost-0" / "leader-epoch-checkpoint").write_text("0\n0\n")

    result = fmt(tmp_path, dry_run=True)

    assert {topic.name: topic.partitions[0].leader_epoch for topic in result.topics} == {
        "none": 0,
        "first": 1,
        "later": 5,
        "lost": 5,
    }


def test_a_dry_run_plans_the_same_and_changes_nothing(tmp_path: Path) -> None:
    lone(tmp_path / "orders-0", b"a")
    before = contents_of(tmp_path)

    plan = fmt(tmp_path, tmp_path.with_name("new"), topic_settings=SETTINGS, dry_run=True)

    assert contents_of(tmp_path) == before
    assert not tmp_path.with_name("new").exists()
    assert (plan.cluster_id, plan.topics[0].topic_id, plan.directories[0].directory_id) == (None, None, None)
    done = fmt(tmp_path, tmp_path.with_name("new"), topic_settings=SETTINGS)
    assert [(t.name, t.settings, t.partitions) for t in plan.topics] == [
        (t.name, t.settings, t.partitions) for t in done.topics
    ]


def test_a_second_run_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    lone(tmp_path / "orders-0", b"a")
    fmt(tmp_path)
    before = contents_of(tmp_path)

    for dry_run in (True, False):
        with pytest.raises(FormatRefusedError, match="formatted already, as a directory of node 1"):
            fmt(tmp_path, dry_run=dry_run)
    assert contents_of(tmp_path) == before


@pytest.mark.parametrize("release", ["4.3.1", "3.9.2", "2.8.2"])
def test_a_brokers_directory_is_refused(tmp_path: Path, release: str) -> None:
    directory = Path(shutil.copytree(log_dirs(release, "clean")[0], tmp_path / "data"))
    before = contents_of(directory)

    with pytest.raises(FormatRefusedError, match="create the topic on the broker, stop the broker, write"):
        fmt(directory)
    (directory / "meta.properties").unlink()
    if release != "2.8.2":
        with pytest.raises(FormatRefusedError, match=f"it has {METADATA}, but no meta.properties"):
            fmt(directory)
    assert contents_of(directory).keys() == before.keys() - {str(directory / "meta.properties")}


def test_a_disk_whose_metadata_is_lost_keeps_its_topic_ids_and_epochs(tmp_path: Path) -> None:
    directory = Path(shutil.copytree(log_dirs("4.3.1", "clean")[0], tmp_path / "data"))
    lost = metadata_of(directory)
    shutil.rmtree(directory / METADATA)
    for name in ("meta.properties", "bootstrap.checkpoint"):
        (directory / name).unlink()

    result = fmt(directory, internal_partitions=dict.fromkeys(lost.topics, 1))

    found = metadata_of(directory)
    assert found.broker_configs == lost.broker_configs
    assert {name: topic.topic_id for name, topic in found.topics.items()} == {
        name: topic.topic_id for name, topic in lost.topics.items()
    }
    assert {name: topic.replicas for name, topic in found.topics.items()} == {
        name: topic.replicas for name, topic in lost.topics.items()
    }
    rolled = next(topic for topic in result.topics if topic.name == "rolled")
    known = (directory / "rolled-0" / "leader-epoch-checkpoint").read_text().split()
    assert rolled.partitions[0].leader_epoch == int(known[-2]) + 1
    check_formatted(Disk(), [str(directory)], [str(directory / f"{name}-0") for name in lost.topics])


def test_a_directory_that_is_in_use_is_refused(tmp_path: Path) -> None:
    with open_log(tmp_path / "orders-0", create=True) as log:
        log.append(b"a")
        for dry_run in (True, False):
            with pytest.raises(LogDirLockedError, match="this process has it open already"):
                fmt(tmp_path, dry_run=dry_run)
    assert not (tmp_path / "meta.properties").exists()


def test_a_directory_that_was_not_shut_down_cleanly_is_refused(tmp_path: Path) -> None:
    killed, manager = tmp_path / "killed", tmp_path / "manager"
    left_open(killed / "orders-0", b"a")
    write(str(manager), {"value": [b"a"]}, topic="orders", partitions="1")
    (manager / ".kafka_cleanshutdown").unlink()

    for directory in (killed, manager):
        before = contents_of(directory)
        for dry_run in (True, False):
            with pytest.raises(NeedsRecoveryError, match=rf"Run `stratalog recover {directory}` first\."):
                fmt(directory, dry_run=dry_run)
        assert contents_of(directory) == before


def test_other_things_are_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"")
    lone(tmp_path / "data" / "orders-0", b"a")

    for directory in (tmp_path / "photos", tmp_path / "data" / "orders-0"):
        with pytest.raises(NotALogDirectoryError):
            fmt(directory)
    with pytest.raises(
        FormatRefusedError, match="only for the metadata: no broker would find orders-0 in it"
    ):
        fmt(tmp_path / "new", metadata_directory=str(tmp_path / "data"))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("dry_run", [False, True])
def test_metadata_inside_a_log_directory_is_refused_before_anything_is_written(
    tmp_path: Path, dry_run: bool
) -> None:
    """It wrote its notes, and then neither this directory nor the log directory could be formatted."""
    lone(tmp_path / "data" / "orders-0", b"a")
    before = contents_of(tmp_path)

    with pytest.raises(UsageError, match="cannot contain another one"):
        fmt(tmp_path / "data", metadata_directory=str(tmp_path / "data" / "metadata"), dry_run=dry_run)

    assert contents_of(tmp_path) == before


@pytest.mark.parametrize("dry_run", [False, True])
def test_files_of_another_user_are_refused_before_anything_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    lone(tmp_path / "data" / "orders-0", b"a")
    before = contents_of(tmp_path)
    monkeypatch.setattr("stratalog.directory.formatting.format.current_user", lambda: 54321)

    with pytest.raises(FileOwnerError):
        fmt(tmp_path / "data", tmp_path / "new", dry_run=dry_run)

    assert contents_of(tmp_path) == before
    assert not (tmp_path / "new").exists()


def test_a_wrong_setting_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    lone(tmp_path / "orders-0", b"a")

    with pytest.raises(ConfigError, match=r"cleanup\.policy = compacted"):
        fmt(tmp_path, topic_settings='{"orders": {"cleanup.policy": "compacted"}}')
    with pytest.raises(
        UsageError, match="settings for the topic order, but no log directory has a partition"
    ):
        fmt(tmp_path, topic_settings='{"order": {}}')
    assert names_in(tmp_path) == ["orders-0"]


def test_a_folder_that_keeps_a_broker_from_starting_is_told(tmp_path: Path) -> None:
    lone(tmp_path / "orders-0", b"a")
    (tmp_path / "lost+found").mkdir()

    for dry_run in (True, False):
        result = fmt(tmp_path, dry_run=dry_run)
        assert [refusal.name for refusal in result.refusals] == ["lost+found"]


def test_the_features_of_an_older_release_are_written(tmp_path: Path) -> None:
    lone(tmp_path / "orders-0", b"a")

    fmt(tmp_path, release="4.0")

    check_formatted(Disk(), [str(tmp_path)], [str(tmp_path / "orders-0")])
    with pytest.raises(UsageError, match=r"one of 3\.9, 4\.0"):
        fmt(tmp_path, release="2.8")


# What is interrupted: closed logs of `open_log`, one without an id, in one directory; what the sink wrote, in
# another; and a new one.
@cache
def interrupted_files(root: Path) -> SimulatedDisk:
    lone(root / "a" / "orders-0", b"a")
    lone(root / "a" / "users-0", b"b")
    write(str(root / "b"), {"value": [b"a"], "partition": [2]}, topic="orders", partitions="4")
    return on_a_simulated_disk(a=root / "a", b=root / "b")


PATHS = ["/a", "/b", "/c"]
PARTITIONS = ["/a/orders-0", "/a/users-0", "/b/orders-2"]
MOST = 6  # states for each step


def new_disk(root: Path) -> SimulatedDisk:
    return SimulatedDisk.of(interrupted_files(root).contents(), lambda: 0)


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    root = tmp_path_factory.mktemp("to-format")
    disk = new_disk(root)
    format_on(disk, PATHS)
    return root, disk.steps


def chosen(count: int) -> Iterator[int]:
    yield from range(1, count + 1, max(1, count // profile.examples(count, quick=12)))


def check_whole_if_complete(disk: SimulatedDisk) -> None:
    """A broker starts only where the metadata's directory has its meta.properties: then all is there."""
    if disk.exists("/a/meta.properties"):
        for directory in PATHS:
            for name in ("meta.properties", ".kafka_cleanshutdown", "bootstrap.checkpoint"):
                assert disk.exists(f"{directory}/{name}"), f"{directory}/{name}"
        for partition in PARTITIONS:
            assert disk.exists(f"{partition}/partition.metadata")
        assert metadata_of("/a", disk).topics.keys() == {"orders", "users"}


def test_a_power_cut_at_any_step_is_finished_by_the_next_run(steps: tuple[Path, int]) -> None:
    root, count = steps
    states = 0
    for step in chosen(count):
        disk = new_disk(root)
        disk.crash_at(step)
        with pytest.raises(PowerCut):
            format_on(disk, PATHS)
        for found in disk.crash(MOST):
            check_whole_if_complete(found)
            is_noted = found.exists("/a/stratalog-format.json")
            is_done = found.exists("/a/meta.properties") and not is_noted
            if is_done:
                with suppress(FormatRefusedError):
                    format_on(found, PATHS, start=5000)
            else:
                result = format_on(found, PATHS, start=5000)
                assert result.topics[0].name == "orders"
            check_formatted(found, PATHS, PARTITIONS)
            if is_noted:  # the ids are those of the run that was interrupted
                assert found.read_file("/a/meta.properties") == finished(root)
            states += 1
    assert states >= count if profile.current() == profile.DEEP else states > 0


@cache
def finished(root: Path) -> bytes | None:
    disk = new_disk(root)
    format_on(disk, PATHS)
    return disk.read_file("/a/meta.properties")


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
def test_a_refusal_of_the_disk_at_any_step_is_finished_by_the_next_run(
    steps: tuple[Path, int], number: int
) -> None:
    root, count = steps
    for step in chosen(count):
        disk = new_disk(root)
        disk.fail_at(step, number)
        with suppress(StratalogError):
            format_on(disk, PATHS)
        check_whole_if_complete(disk)
        with suppress(FormatRefusedError):  # formatted, to the last file
            format_on(disk, PATHS, start=5000)
        check_formatted(disk, PATHS, PARTITIONS)


def test_an_interrupted_run_is_finished_only_with_its_own_directories_and_ids(
    steps: tuple[Path, int],
) -> None:
    root, count = steps
    disk = new_disk(root)
    disk.fail_at(count // 2)
    with suppress(StratalogError):
        format_on(disk, PATHS)
    assert disk.exists("/b/stratalog-format.json")

    with pytest.raises(FormatRefusedError, match="name the same directories, /a first, to finish it"):
        format_on(disk, ["/b"])
    with pytest.raises(UsageError, match="leave the id out"):
        format_on(disk, PATHS, FormatOptions(cluster_id="sEiga6BNSJaW_7X41bWJDQ"))
    with pytest.raises(UsageError, match="which was for node 1, not 2"):
        format_on(disk, PATHS, FormatOptions(node_id=2))
    disk.replace("/b/stratalog-format.json", b"{}")
    with pytest.raises(CorruptCheckpointError, match="not the note of an interrupted format"):
        format_on(disk, PATHS)


def just_before_the_end(root: Path, count: int) -> SimulatedDisk:
    """A disk whose format lacks nothing but the last meta.properties."""
    for step in range(count, 0, -1):
        disk = new_disk(root)
        disk.fail_at(step)
        with suppress(StratalogError):
            format_on(disk, PATHS)
        if not disk.exists("/a/meta.properties"):
            assert disk.exists("/b/meta.properties")
            return disk
    raise AssertionError("the last meta.properties is never missing")


def test_a_topic_that_came_after_an_interrupted_run_is_formatted_too(steps: tuple[Path, int]) -> None:
    disk = just_before_the_end(*steps)

    result = format_on(disk, PATHS, FormatOptions(partitions={"new": 3}), start=5000)

    assert [topic.name for topic in result.topics] == ["new", "orders", "users"]
    check_formatted(disk, PATHS, PARTITIONS)
    assert metadata_of("/a", disk).topics.keys() == {"new", "orders", "users"}
