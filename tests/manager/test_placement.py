"""In which directory a new log or a copy goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import UsageError
from stratalog.files.names import TopicPartition
from tests.manager.running import ORDERS, Node, filled


def test_new_logs_go_to_the_directory_with_the_fewest(tmp_path: Path) -> None:
    directories = [tmp_path / name for name in "abc"]
    with Node(*directories).running() as manager:
        for partition in range(7):
            manager.get_or_create_log(TopicPartition("orders", partition), is_new=True)

    assert sorted(len(list(path.glob("orders-*"))) for path in directories) == [2, 2, 3]


def test_a_log_goes_where_it_is_wanted(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with Node(first, second).running() as manager:
        manager.set_preferred_log_dir(ORDERS, f"{second}/")
        manager.get_or_create_log(ORDERS, is_new=True)
        other = manager.get_or_create_log(TopicPartition("orders", 1), is_new=True, directory=second)

    assert (second / "orders-0").is_dir()
    assert other.directory == str(second / "orders-1")


def test_a_directory_that_is_not_the_manager_s_is_refused(tmp_path: Path) -> None:
    with (
        Node(tmp_path / "a").running() as manager,
        pytest.raises(UsageError, match="not a directory of this log manager"),
    ):
        manager.get_or_create_log(ORDERS, is_new=True, directory=tmp_path / "b")


@pytest.mark.parametrize("cordoned", ["*", "all", "first"])
def test_a_cordoned_directory_gets_no_new_log_unless_all_are(tmp_path: Path, cordoned: str) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    names = {"*": ("*",), "all": (str(first), str(second)), "first": (f"{first}/",)}[cordoned]
    with Node(first, second, cordoned_log_dirs=names).running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True)

    assert log.directory == str((second if cordoned == "first" else first) / "orders-0")


def test_a_copy_goes_to_another_directory_than_the_log(tmp_path: Path) -> None:
    with Node(tmp_path / "a", tmp_path / "b").running() as manager:
        filled(manager, directory=tmp_path / "a")

        with pytest.raises(UsageError, match="another directory"):
            manager.move_log(ORDERS, tmp_path / "a")
        with pytest.raises(UsageError, match="the directory of its copy is not known"):
            manager.get_or_create_log(ORDERS, is_future=True)
        with pytest.raises(UsageError, match="has no log of"):
            manager.move_log(TopicPartition("events", 0), tmp_path / "b")
