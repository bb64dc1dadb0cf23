"""The logs of a `LogManager`: a broker's methods and people's, which do not get in each other's way."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog import LogManager, TopicPartition
from stratalog.errors import LogMovedError, WrongTypeError
from stratalog.log.api.log_api import LogApi
from stratalog.log.api.managed_log import ManagedLog
from stratalog.log.log import Log


def test_no_method_for_people_hides_one_of_the_log_below() -> None:
    both = {name for name in vars(LogApi).keys() & vars(Log).keys() if not name.startswith("__")}

    assert both == set()


def test_a_log_without_replicas_known_ends_for_readers_at_its_high_watermark(tmp_path: Path) -> None:
    with LogManager([tmp_path]) as manager:
        log = manager.get_or_create_log(("orders", 0), is_new=True)
        log.append_many([b"a", b"b"])

        assert [*log] == []
        log.update_high_watermark(1)
        log.append(b"c")
        assert (log.high_watermark, log.end_offset) == (1, 3)


def test_a_pair_stands_for_a_partition_everywhere(tmp_path: Path) -> None:
    pair = ("orders", 1)
    with LogManager([tmp_path / "a", tmp_path / "b"], high_watermark_follows_end=True) as manager:
        manager.set_preferred_log_dir(pair, tmp_path / "a")
        log = manager.get_or_create_log(pair, is_new=True)
        assert type(log) is ManagedLog
        assert type(log.topic_partition) is TopicPartition
        log.append_many([b"a", b"b"])

        moved = manager.move_log(pair, tmp_path / "b")
        assert manager.get_log(pair) is moved is manager.get_log(TopicPartition("orders", 1))
        assert [record.value for record in moved] == [b"a", b"b"]
        with pytest.raises(LogMovedError):
            log.append(b"late")
        manager.truncate_to({pair: 0})
        manager.truncate_fully_and_start_at(pair, 7)
        assert moved.append(b"c") == 7
        assert manager.async_delete(pair) is moved
        assert manager.get_log(pair) is None


@pytest.mark.parametrize(
    "wrong", ["orders-0", None, ("orders", "0"), ("orders", 0, 1), (0, "orders"), ("orders", True)]
)
def test_what_is_not_a_partition_is_told_how_to_write_one(tmp_path: Path, wrong: object) -> None:
    with LogManager([tmp_path]) as manager:
        for use in (manager.get_log, manager.get_or_create_log, manager.async_delete):
            with pytest.raises(WrongTypeError, match=r'write \("orders", 0\)'):
                use(wrong)  # type: ignore[operator]
