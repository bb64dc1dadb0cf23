"""The content of a log directory, sorted by names as a broker does."""

from __future__ import annotations

import pytest

from stratalog.directory.layout import PartitionEntry, classify, find_duplicates
from stratalog.files.disk import Disk
from stratalog.files.names import DirectoryState, TopicPartition
from stratalog.files.simulated import SimulatedDisk
from tests.fixtures.catalog import log_dirs

ID = "0123456789abcdef0123456789abcdef"


def disk_with(*names: str, files: tuple[str, ...] = ()) -> SimulatedDisk:
    disk = SimulatedDisk()
    for name in names:
        disk.make_directories(f"/data/{name}")
    for name in files:
        disk.create(f"/data/{name}")
    return disk


def test_a_broker_s_directory_is_sorted_by_what_it_does_with_each() -> None:
    (clean,) = log_dirs("4.3.1", "clean")

    layout = classify(Disk(), clean)

    assert [entry.name for entry in layout.partitions] == [
        "__consumer_offsets-0",
        "__share_group_state-0",
        "__transaction_state-0",
        "binary-0",
        "codecs-0",
        "compacted-0",
        "headers-0",
        "idempotent-0",
        "logappend-0",
        "rolled-0",
        "trimmed-0",
        "txn-0",
    ]
    assert layout.left_alone[0] == "__cluster_metadata-0"
    assert [name[:14] for name in layout.waiting] == ["short-lived-0."]
    assert layout.problems == ()


def test_marked_directories_and_the_cache_of_tiered_storage_are_left_alone() -> None:
    names = (f"a-0.{ID}-delete", f"b-0.{ID}-stray", "remote-log-index-cache", "__cluster_metadata-0")

    layout = classify(disk_with(*names), "/data")

    assert layout.partitions == ()
    assert layout.left_alone == tuple(sorted(names))
    assert (layout.waiting, layout.strays) == ((names[0],), (names[1],))


def test_a_future_log_is_a_partition_like_any_other() -> None:
    layout = classify(disk_with(f"a-3.{ID}-future", "a-3"), "/data")

    assert [(entry.topic_partition, entry.state) for entry in layout.partitions] == [
        (TopicPartition("a", 3), DirectoryState.LIVE),
        (TopicPartition("a", 3), DirectoryState.FUTURE),
    ]
    assert layout.problems == ()


@pytest.mark.parametrize("name", ["lost+found", "no_number", "-1", "a-x", "a-0.-delete"])
def test_a_directory_that_is_no_partition_s_keeps_a_broker_from_starting(name: str) -> None:
    (problem,) = classify(disk_with(name), "/data").problems

    assert problem.name == name
    assert "refuses to start" in problem.consequence


def test_a_file_of_whatever_name_is_passed_over() -> None:
    layout = classify(disk_with("a-0", files=("lost+found", "b-0", "stratalog-quarantine.jsonl")), "/data")

    assert [entry.name for entry in layout.partitions] == ["a-0"]
    assert layout.problems == ()


def test_two_names_for_one_partition_are_a_problem() -> None:
    (problem,) = classify(disk_with("a-1", "a-01"), "/data").problems

    assert "a-1 is also in /data/a-01" in problem.words


def test_a_partition_in_two_directories_is_a_problem() -> None:
    entry = PartitionEntry("a-1", TopicPartition("a", 1))

    assert find_duplicates([("/one", entry)]) == []
    (problem,) = find_duplicates([("/one", entry), ("/two", entry)])
    assert (problem.name, problem.words) == ("/two/a-1", "a-1 is also in /one/a-1")
