"""`ls`: topics, partitions and segments, against what Kafka reads in the same files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from stratalog import open_log
from stratalog.directory.known_topics import TopicSources
from stratalog.errors import NotALogDirectoryError, UsageError
from stratalog.files.lock import DirectoryLock
from stratalog.files.names import CLEANER_OFFSET_CHECKPOINT, OFFSET_CHECKPOINTS, DirectoryState
from stratalog.operations.ls import TopicListing
from stratalog.operations.ls_report import ListedPartition, LsReport
from stratalog.operations.report import Status
from tests.directory.recovery.recovering import SERVER
from tests.directory.refused import with_second
from tests.fixtures.catalog import log_dirs, partitions
from tests.manager.running import contents, fixture_copy
from tests.operations.test_recover_owners import as_nobody, reachable

__all__ = ["reachable"]


def listed(*directories: Path, names: tuple[str, ...] = ()) -> LsReport:
    return TopicListing(directories=[str(path) for path in directories], names=names).run()


def by_name(report: LsReport) -> dict[str, ListedPartition]:
    return {found.name: found for found in report.partitions}


@pytest.mark.parametrize("logs", log_dirs(), ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_every_partition_of_a_real_broker(logs: Path) -> None:
    before = contents(logs)
    release, state = logs.parts[-3].removeprefix("kafka-"), logs.parts[-2]
    expected = {each.name: each for each in partitions(release, state)}

    report = listed(logs)

    live = {name: found for name, found in by_name(report).items() if found.is_live}
    assert live.keys() == expected.keys()
    for name, partition in expected.items():
        found, files = live[name], [log.name for log in partition.logs]
        batches = [batch for batch in partition.batches() if batch["file"] in files]
        assert found.size == sum(log.stat().st_size for log in partition.logs)
        assert found.segments_count == len(files)
        if batches:
            assert found.end_offset == batches[-1]["lastOffset"] + 1
            assert found.last_ms == batches[-1]["maxTimestamp"]
            assert found.codec == batches[-1]["codec"]
            assert found.leader_epoch == batches[-1]["partitionLeaderEpoch"]
    assert report.directories[0].is_clean == (state == "clean")
    assert report.status is Status.FINE
    assert contents(logs) == before


def test_the_segments_of_a_partition_are_those_that_kafka_reads() -> None:
    (logs,) = log_dirs("4.3.1", "clean")
    (partition,) = [each for each in partitions("4.3.1", "clean") if each.name == "rolled-0"]

    (found,) = listed(logs, names=("rolled-0",)).partitions

    for segment, log in zip(found.segments, partition.logs, strict=True):
        batches = list(partition.batches(log))
        assert (segment.base_offset, segment.size) == (int(log.stem), log.stat().st_size)
        assert segment.end_offset == batches[-1]["lastOffset"] + 1
        assert segment.first_ms == batches[0]["records"][0]["timestamp"]
        assert segment.last_ms == batches[-1]["maxTimestamp"]
        assert segment.index_entries == log.with_suffix(".index").stat().st_size // 8
        assert segment.time_index_entries == log.with_suffix(".timeindex").stat().st_size // 12


def test_a_topic_is_all_of_its_partitions_in_all_directories(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    other = with_second(data)
    (first,) = [path for path in (data / "rolled-0", other / "rolled-0") if path.exists()]
    second = (data if first.parent == other else other) / "rolled-1"
    shutil.copytree(first, second)
    (second / f"{72:020d}.log").write_bytes(b"")

    report = listed(data, other, names=("rolled",))

    (topic,) = report.topics()
    assert [found.name for found in topic.partitions] == ["rolled-0", "rolled-1"]
    assert (topic.start_offset, topic.end_offset, topic.segments_count) == (0, 80, 10)
    assert [found.end_offset for found in topic.partitions] == [80, 72]


def test_a_log_starts_where_the_checkpoint_says() -> None:
    (logs,) = log_dirs("4.3.1", "clean")

    assert by_name(listed(logs))["trimmed-0"].start_offset == 17


def test_policies_are_those_of_the_cluster_or_known_to_be_defaults() -> None:
    (logs,) = log_dirs("4.3.1", "clean")

    def policy(topic: str, **sources: object) -> str:
        report = TopicListing(directories=[str(logs)], sources=TopicSources(**sources)).run()  # type: ignore[arg-type]
        return str(report.policies[topic])

    assert policy("compacted") == "compact"
    assert policy("rolled") == "(delete)"
    assert policy("rolled", server=SERVER) == "delete"
    assert policy("rolled", topic_settings='{"rolled": {"cleanup.policy": "compact"}}') == "compact"
    assert policy("__cluster_metadata") == "-"


def test_a_folder_that_waits_for_its_deletion_is_no_topic() -> None:
    (logs,) = log_dirs("4.3.1", "clean")

    report = listed(logs)

    waiting = [found for found in report.partitions if found.state is DirectoryState.DELETE]
    assert [found.topic for found in waiting] == ["short-lived"]
    assert "short-lived" not in [topic.topic for topic in report.topics()]
    assert any("short-lived-0." in words for words in report.words())


def test_a_log_that_open_log_closed_is_clean_by_itself(tmp_path: Path) -> None:
    with open_log(tmp_path / "orders-0", create=True) as log:
        log.append(b"a")
        assert not by_name(listed(tmp_path))["orders-0"].is_clean

    assert by_name(listed(tmp_path))["orders-0"].is_clean
    assert "Not shut down cleanly" not in listed(tmp_path).verdict


def test_a_directory_in_use_is_said_to_be(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")

    with DirectoryLock(data):
        assert listed(data).verdict.endswith(f"A broker or another program is using {data} now.")


def test_a_name_that_is_not_there_is_wrong_usage() -> None:
    (logs,) = log_dirs("4.3.1", "clean")

    with pytest.raises(UsageError, match="nothing: there is no such topic or partition"):
        listed(logs, names=("nothing",))


def test_what_is_not_a_log_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotALogDirectoryError):
        listed(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_partition_that_this_user_may_not_read_is_named_and_the_others_are_listed(reachable: Path) -> None:
    data = fixture_copy("clean", reachable / "data")
    (data / "rolled-0").chmod(0o700)

    with as_nobody():
        report = listed(data)

    assert report.status is Status.FAILED
    assert "Permission denied" in (by_name(report)["rolled-0"].error or "")
    assert by_name(report)["txn-0"].end_offset == 58


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("name", OFFSET_CHECKPOINTS)
def test_a_checkpoint_that_this_user_may_not_read_stopped_the_listing(reachable: Path, name: str) -> None:
    data = fixture_copy("clean", reachable / "data")
    (data / name).touch()
    (data / name).chmod(0o600)

    with as_nobody():
        report = listed(data)

    assert by_name(report)["txn-0"].end_offset == 58
    if name == CLEANER_OFFSET_CHECKPOINT:  # which a listing does not need
        assert (report.status, report.unreadable) == (Status.FINE, ())
    else:
        assert report.status is Status.FAILED
        (words,) = report.unreadable
        assert f"{name}: could not open it: Permission denied." in words
        assert words in report.words()
