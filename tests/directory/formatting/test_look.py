from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stratalog import open_log
from stratalog.directory.formatting.choices import FormatOptions
from stratalog.directory.formatting.look import FoundTopics, find_topics, wanted_topics
from stratalog.directory.layout import classify
from stratalog.errors import FormatRefusedError, InvalidNameError
from stratalog.files.disk import Disk
from tests.directory.lone import lone

FIRST, SECOND = "s38DPPefRHu4CKwEjdBcXA", "hPi-51fnRTmFrG5XUmJD2Q"


def found_in(*directories: Path) -> FoundTopics:
    return find_topics(Disk(), [classify(Disk(), directory) for directory in directories])


def with_id(directory: Path, topic_id: str) -> None:
    with open_log(directory, create=True, topic_id=topic_id) as log:
        log.append(b"a")


def test_ids_are_read_and_missing_ones_are_listed(tmp_path: Path) -> None:
    with_id(tmp_path / "orders-0", FIRST)
    lone(tmp_path / "orders-1", b"a")
    lone(tmp_path / "users-0", b"a")

    found = found_in(tmp_path)

    assert {topic: sorted(parts) for topic, parts in found.partitions.items()} == {
        "orders": [0, 1],
        "users": [0],
    }
    assert found.ids.keys() == {"orders"}
    assert [each.directory for each in found.without_id] == [
        str(tmp_path / "orders-1"),
        str(tmp_path / "users-0"),
    ]


def test_two_ids_of_one_topic_are_refused(tmp_path: Path) -> None:
    with_id(tmp_path / "a" / "orders-0", FIRST)
    with_id(tmp_path / "b" / "orders-1", SECOND)

    with pytest.raises(FormatRefusedError) as raised:
        found_in(tmp_path / "a", tmp_path / "b")

    assert raised.value.path == str(tmp_path / "b" / "orders-1")
    for words in (FIRST, SECOND, str(tmp_path / "a" / "orders-0"), "Move the partitions of the old one away"):
        assert words in raised.value.reason


def test_one_id_of_two_topics_is_refused(tmp_path: Path) -> None:
    with_id(tmp_path / "orders-0", FIRST)
    shutil.copytree(tmp_path / "orders-0", tmp_path / "users-0")

    with pytest.raises(
        FormatRefusedError, match=rf"also that of {tmp_path}/orders-0, a partition of another"
    ):
        found_in(tmp_path)


def test_a_partition_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    lone(tmp_path / "a" / "orders-0", b"a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")

    with pytest.raises(FormatRefusedError, match=r"orders-0 is also in .*a/orders-0\. Move the older"):
        found_in(tmp_path / "a", tmp_path / "b")


def test_a_copy_on_its_way_and_a_garbled_id_are_refused(tmp_path: Path) -> None:
    lone(tmp_path / "orders-0", b"a")
    (tmp_path / "orders-0" / "partition.metadata").write_text("version: 0")
    with pytest.raises(FormatRefusedError, match="does not name the topic's id: it ends before topic_id"):
        found_in(tmp_path)

    (tmp_path / "orders-0").rename(tmp_path / f"orders-0.{'0' * 32}-future")
    with pytest.raises(FormatRefusedError, match="the copy of a partition that was being moved"):
        found_in(tmp_path)


def test_what_a_broker_deletes_or_keeps_aside_is_no_topic(tmp_path: Path) -> None:
    lone(tmp_path / "orders-0", b"a")
    for mark in ("delete", "stray"):
        shutil.copytree(tmp_path / "orders-0", tmp_path / f"old-0.{'0' * 32}-{mark}")

    assert found_in(tmp_path).partitions.keys() == {"orders"}


def test_a_topic_that_is_to_be_created_needs_a_legal_name() -> None:
    assert wanted_topics(FoundTopics(), FormatOptions(partitions={"b": 1, "a": 2})) == {"a": 2, "b": 1}
    with pytest.raises(InvalidNameError):
        wanted_topics(FoundTopics(), FormatOptions(partitions={"a b": 1}))
