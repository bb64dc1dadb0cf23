"""Which partitions a read has, by the names in the directories that real brokers left."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import NotALogDirectoryError, UsageError
from stratalog.files.disk import Disk
from stratalog.jobs.reading.catalog import find_partitions
from stratalog.jobs.reading.options import ReadOptions

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
CLEAN = FIXTURES / "kafka-4.3.1" / "clean" / "logs"
TOPICS = ["binary", "codecs", "compacted", "headers", "idempotent", "logappend", "rolled", "trimmed", "txn"]


def found(path: Path | str, **options: str) -> list[str]:
    parsed = ReadOptions.parse({"path": str(path)} | options)
    return [str(each.topic_partition) for each in find_partitions(Disk(), parsed)]


def test_all_topics_but_internal_and_deleted_ones_are_read() -> None:
    assert found(CLEAN) == [f"{topic}-0" for topic in TOPICS]


def test_an_internal_topic_is_read_if_it_is_named() -> None:
    assert found(CLEAN, subscribe="__consumer_offsets,txn") == ["__consumer_offsets-0", "txn-0"]


def test_a_pattern_must_match_the_whole_name() -> None:
    assert found(CLEAN, subscribePattern="co.*s|tx|t.*d|__.*") == ["codecs-0", "trimmed-0"]


def test_assigned_partitions_alone_are_read() -> None:
    assert found(CLEAN, assign='{"txn": [0]}') == ["txn-0"]


def test_a_partitions_own_directory_can_be_loaded() -> None:
    assert found(CLEAN / "trimmed-0") == ["trimmed-0"]


def test_the_log_start_offset_is_found_for_both_ways_to_load_it() -> None:
    for path in (CLEAN, CLEAN / "trimmed-0"):
        options = ReadOptions.parse({"path": str(path), "subscribe": "trimmed"})
        assert [each.log_start_offset for each in find_partitions(Disk(), options)] == [17]


def test_a_glob_is_expanded_level_by_level() -> None:
    assert found(CLEAN.parent.parent / "cl*" / "lo*", subscribe="txn") == ["txn-0"]
    assert found(CLEAN / "t*-0") == ["trimmed-0", "txn-0"]


@pytest.mark.parametrize("other", ["server.log", "stratalog-write-5f0c-0-0.log"])
def test_a_log_directory_may_be_called_like_a_partition(tmp_path: Path, other: str) -> None:
    (tmp_path / "kafka-1" / "orders-0").mkdir(parents=True)
    (tmp_path / "kafka-1" / other).write_text("words")

    assert found(tmp_path / "kafka-1") == ["orders-0"]


def test_a_directory_may_look_like_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "disk[1]" / "orders-0").mkdir(parents=True)

    assert found(tmp_path / "disk[1]") == ["orders-0"]


def test_a_file_url_is_a_path() -> None:
    assert found(CLEAN.as_uri(), subscribe="txn") == ["txn-0"]


def test_a_directory_given_twice_is_read_once() -> None:
    options = ReadOptions.parse({"paths": f'["{CLEAN}", "{CLEAN}/"]', "subscribe": "txn"})

    assert len(find_partitions(Disk(), options)) == 1


def test_replicas_of_one_partition_are_refused() -> None:
    with pytest.raises(UsageError, match=r"codecs-0 is in .*clean.* and in .*killed.*replicas"):
        found(CLEAN.parent.parent / "*" / "logs", subscribe="codecs")


def test_partitions_that_are_not_asked_for_may_be_there_twice(tmp_path: Path) -> None:
    for name in ("one/a-0", "one/b-0", "two/a-0"):
        (tmp_path / name).mkdir(parents=True)

    assert found(tmp_path / "*", subscribe="b") == ["b-0"]


@pytest.mark.parametrize(
    ("path", "options", "says"),
    [
        ("nowhere", {}, r"nowhere does not exist.*log\.dirs"),
        ("clean/logs/meta.properties", {}, "meta.properties is not a directory"),
        ("clea[xyz]/logs", {}, "matches no directory"),
        ("clean/logs", {"subscribe": "orders"}, "subscribe names orders, which is not in .* topics .*txn"),
        ("clean/logs", {"assign": '{"txn": [0, 1]}'}, "assign names txn-1"),
    ],
)
def test_what_is_not_there_is_named(path: str, options: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        found(CLEAN.parent.parent / path, **options)


def test_a_directory_without_partitions_is_not_a_log_directory() -> None:
    with pytest.raises(NotALogDirectoryError, match="contains no partition directory"):
        found(CLEAN.parent.parent / "clean/dump")


def test_another_file_system_is_refused() -> None:
    with pytest.raises(UsageError, match="only directories in this machine's file system"):
        found("/", paths='["s3a://bucket/logs"]')
