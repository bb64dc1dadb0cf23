"""open_log: its arguments, and logs that were not closed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from stratalog import PartitionLog, open_log
from stratalog.errors import ConfigError, InvalidNameError, LogDirLockedError, UsageError
from tests.fixtures.catalog import log_dirs
from tests.log.api.opened import CLEAN, values


def test_topic_and_partition_are_in_the_directory_s_name(log: PartitionLog, directory: Path) -> None:
    assert (log.topic, log.partition, log.directory) == ("orders", 3, directory)
    assert repr(log) == f"<PartitionLog {directory}: 0 to 0>"


def test_a_directory_is_made_only_on_demand(directory: Path) -> None:
    with pytest.raises(UsageError, match="create=True"):
        open_log(directory)

    assert not directory.parent.exists()


@pytest.mark.parametrize("name", ["orders", "orders-x", "-1", "no spaces-0"])
def test_a_name_that_is_no_partition_s_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidNameError):
        open_log(tmp_path / name, create=True)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["my topic-0", os.fsdecode(b"r\xff-0")], ids=ascii)
def test_a_folder_that_no_checkpoint_can_name_lost_its_start_offset(tmp_path: Path, name: str) -> None:
    with open_log(tmp_path / "orders-0", create=True) as log:
        log.append_many([b"1", b"2"])
    (tmp_path / "orders-0").rename(tmp_path / name)

    with pytest.raises(InvalidNameError):
        open_log(tmp_path / name)

    with open_log(tmp_path / name, read_only=True) as view:
        assert [record.value for record in view.records()] == [b"1", b"2"]


def test_a_file_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "orders-0").touch()

    with pytest.raises(UsageError, match="not a directory"):
        open_log(tmp_path / "orders-0", create=True)


def test_a_setting_that_kafka_does_not_know_is_refused_and_nothing_created(directory: Path) -> None:
    with pytest.raises(ConfigError, match=r"segment\.size"):
        open_log(directory, create=True, config={"segment.size": 1})

    assert not directory.exists()


def test_a_topic_id_that_is_none_is_refused_and_nothing_created(directory: Path) -> None:
    with pytest.raises(UsageError, match="topic_id"):
        open_log(directory, create=True, topic_id="zz")

    assert not directory.exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    [("orders-00", "the name orders-0"), ("orders-+0", "the name orders-0"), ("orders--1", None)],
)
def test_a_partition_is_created_under_the_name_that_a_broker_gives_it(
    name: str, reason: str | None, tmp_path: Path
) -> None:
    if reason is None:  # partition 1 of the topic `orders-`
        open_log(tmp_path / name, create=True).close()
        return

    with pytest.raises(UsageError, match=reason):
        open_log(tmp_path / name, create=True)

    assert not (tmp_path / name).exists()


def test_the_mark_of_a_clean_close_is_there_only_while_the_log_is_closed(directory: Path) -> None:
    with open_log(directory, create=True) as log:
        log.append(b"a")
        assert not (directory / CLEAN).exists()

    assert json.loads((directory / CLEAN).read_bytes()) == {"version": 0, "brokerEpoch": -1}


def test_a_log_that_was_not_closed_is_recovered(log: PartitionLog, directory: Path) -> None:
    log.append(b"a")
    crashed = directory.with_name("crashed-0")
    shutil.copytree(directory, crashed)
    with open_log(crashed, read_only=True) as view:
        assert values(view.records()) == [b"a"]

    with open_log(crashed) as again:
        assert values(again.records()) == [b"a"]
        assert again.append(b"b") == 1

    assert (crashed / CLEAN).exists()


def test_a_log_is_open_for_one_writer(log: PartitionLog, directory: Path) -> None:
    with pytest.raises(LogDirLockedError):
        open_log(directory)

    log.close()
    open_log(directory).close()


def test_paths_of_every_kind_are_taken(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_log(str(directory), create=True).close()
    monkeypatch.chdir(directory)

    with open_log(os.curdir) as log:
        assert log.topic == "orders"


def test_a_log_that_is_not_there_is_a_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="create=True") as caught:
        open_log(tmp_path / "orders-0")
    assert caught.value.filename == str(tmp_path / "orders-0")
    assert isinstance(caught.value, UsageError)


def test_a_log_without_a_partition_in_its_name_is_told_which_name_would_do(tmp_path: Path) -> None:
    for create in (True, False):
        with pytest.raises(ValueError, match=r"name it orders-0\.") as caught:
            open_log(tmp_path / "orders", create=create)
        assert isinstance(caught.value, InvalidNameError)
    assert not (tmp_path / "orders").exists()
    with pytest.raises(InvalidNameError, match="a topic's name can only have ASCII letters"):
        open_log(tmp_path / "größe", create=True)


def test_a_log_directory_in_place_of_a_log_names_its_logs() -> None:
    (brokers,) = log_dirs("4.3.1", "clean")

    with pytest.raises(InvalidNameError, match=r"open one of its logs \(.*, codecs-0, "):
        open_log(brokers, read_only=True)
