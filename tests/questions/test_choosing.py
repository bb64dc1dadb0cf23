"""Topics and partitions by name, and where to start in each."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import stratalog
from stratalog.errors import UsageError
from stratalog.files.names import TopicPartition
from stratalog.files.reading import DiskReader
from stratalog.jobs.reading.catalog import find_partitions
from stratalog.jobs.reading.options import EARLIEST, LATEST
from stratalog.questions.choosing import Start, by_kind, chosen, parse_start, parts_elsewhere, starting_at
from tests.fixtures.catalog import log_dirs
from tests.manager.running import fixture_copy

(CLEAN,) = log_dirs("4.3.1", "clean")
COUNTS = {"orders-0": 30, "orders-1": 5, "bills-0": 10}


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    for name, count in COUNTS.items():
        with stratalog.open_log(tmp_path / name, create=True) as log:
            log.append_many([b"%d" % number for number in range(count)])
    return tmp_path


def names(log_dir: Path, *wanted: str) -> list[str]:
    options = chosen([str(log_dir)], wanted, {})
    return [str(each.topic_partition) for each in find_partitions(DiskReader(), options)]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ([], ["bills-0", "orders-0", "orders-1"]),
        (["orders"], ["orders-0", "orders-1"]),
        (["orders-1"], ["orders-1"]),
        (["orders-1", "bills"], ["bills-0", "orders-1"]),
    ],
)
def test_a_name_is_a_topic_or_a_partition(log_dir: Path, wanted: list[str], expected: list[str]) -> None:
    assert names(log_dir, *wanted) == expected


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (["order"], "did you mean orders"),
        (["orders-1", "order"], "did you mean orders"),
        (["orders-7"], "orders has the partitions 0 to 1"),
    ],
)
def test_a_name_that_is_not_there_is_told_with_one_that_is(
    log_dir: Path, wanted: list[str], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        names(log_dir, *wanted)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beginning", Start(offset=EARLIEST)),
        ("end", Start(offset=LATEST)),
        ("17", Start(offset=17)),
        ("-10", Start(from_end=10)),
        ("s@1700", Start(since_ms=1700)),
        ("e@1700", Start(until_ms=1700)),
    ],
)
def test_an_offset_is_written_as_for_kcat(text: str, expected: Start) -> None:
    assert parse_start(text) == expected


@pytest.mark.parametrize("text", ["", "ten", "--5", "1.5", "99999999999999999999", "s@", "stored"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="-o"):
        parse_start(text)


def test_an_offset_from_the_end_is_within_each_partition(log_dir: Path) -> None:
    options, notes = starting_at(chosen([str(log_dir)], ["orders"], {}), [Start(from_end=10)])

    assert options.starting.offsets == {TopicPartition("orders", 0): 20, TopicPartition("orders", 1): 0}
    assert notes == []


def test_a_partition_without_the_offset_is_named(log_dir: Path) -> None:
    options, notes = starting_at(chosen([str(log_dir)], ["orders"], {}), [Start(offset=17)])

    assert options.starting.offsets == {TopicPartition("orders", 0): 17, TopicPartition("orders", 1): 5}
    assert notes == ["orders-1 has no offset 17: its offsets begin at 0 and end before 5."]


def test_internal_topics_are_parts_of_their_own() -> None:
    options = chosen([str(CLEAN)], ["txn", "__consumer_offsets", "codecs", "__transaction_state"], {})

    found = by_kind(DiskReader(), options)

    assert [(topic, [each.topic for each in part.assigned or ()]) for topic, part in found] == [
        (None, ["codecs", "txn"]),
        ("__consumer_offsets", ["__consumer_offsets"]),
        ("__transaction_state", ["__transaction_state"]),
    ]


def test_partitions_that_only_the_cluster_s_metadata_knows_are_missed(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")

    assert parts_elsewhere(DiskReader(), [str(root)], "__consumer_offsets", [0]) is None
    assert parts_elsewhere(DiskReader(), [str(root)], "__consumer_offsets", [2]) == (
        "__consumer_offsets has partitions on other brokers or disks (0)"
    )
    shutil.rmtree(root / "__cluster_metadata-0")
    assert parts_elsewhere(DiskReader(), [str(root)], "__consumer_offsets", [0]) == (
        "The cluster's metadata is not here, so __consumer_offsets may have partitions on other disks"
    )
    (root / "meta.properties").unlink()
    assert parts_elsewhere(DiskReader(), [str(root)], "__consumer_offsets", [0]) is None
    assert parts_elsewhere(DiskReader(), [str(root)], "__consumer_offsets", [0, 2]) == (
        "__consumer_offsets has partitions on other brokers or disks (1)"
    )
