"""Logs that move to another directory: a copy has exactly the records and the marks of its log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from stratalog.files.names import TopicPartition
from stratalog.log.log import Log
from stratalog.manager.moving import agreement, catch_up
from stratalog.records.control import ControlType
from tests.log.model import append_marker, batch, produced, read_all
from tests.manager.compacting import clean, compacted, copy_some, put
from tests.manager.moved import SINGLES, Story
from tests.manager.running import (
    MINUTE_MS,
    ORDERS,
    Node,
    append,
    checkpoint,
    directories_in,
    filled,
    fixture_copy,
    values,
)

RECORDS = 10


@pytest.mark.parametrize(
    ("change", "agreed"),
    [
        (lambda log: log.delete_records(4), RECORDS),
        (lambda log: log.delete_records(RECORDS), RECORDS),
        (lambda log: log.truncate_to(0), 0),
    ],
    ids=["some deleted", "all deleted", "truncated"],
)
def test_records_that_go_while_a_copy_is_compared_do_not_end_the_move(
    change: Callable[[Log], object], agreed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path / "a", tmp_path / "b")
    with node.running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, directory=tmp_path / "a")
        for number in range(RECORDS):
            log.append_as_leader(batch(b"%d" % number), leader_epoch=0)
        log.update_high_watermark(log.log_end_offset)
        copy = manager.get_or_create_log(ORDERS, is_future=True, directory=tmp_path / "b")
        catch_up(log, copy)
        reads, read = [], Log.read

        def read_after_a_change(self: Log, *args: Any, **options: Any) -> object:
            if self is copy and not reads:
                reads.append(change(log))  # after the marks were looked at, before the log is read
            return read(self, *args, **options)

        monkeypatch.setattr(Log, "read", read_after_a_change)

        assert agreement(log, copy) == agreed
        assert reads
        monkeypatch.undo()
        assert manager.move_log(ORDERS, tmp_path / "b").log_start_offset == log.log_start_offset


def test_a_log_moves_to_another_directory_with_all_that_is_in_it(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    node, topic_id = Node(first, second), uuid4()
    with node.running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, topic_id=topic_id, directory=first)
        for sequence in range(5):
            log.append_as_leader(produced(7, sequence, b"%d" % sequence), leader_epoch=sequence // 2)
        log.update_high_watermark(4)
        expected = (log.log_end_offset, log.high_watermark, log.epochs.entries)

        moved = manager.move_log(ORDERS, second)

        assert manager.get_log(ORDERS) is moved
        assert manager.get_log(ORDERS, is_future=True) is None
        assert (moved.log_end_offset, moved.high_watermark, moved.epochs.entries) == expected
        assert moved.directory == str(second / "orders-0")
        assert values(log) == values(moved)  # whoever holds the old one can still read
        assert directories_in(first)[0].endswith("-delete")
        node.wait(MINUTE_MS)
        assert directories_in(first) == []
        # The producer is known there too: what it sends again is not written again.
        again = moved.append_as_leader(produced(7, 4, b"4"), leader_epoch=2)
        assert (again.first_offset, moved.log_end_offset) == (4, 5)

    assert (second / "orders-0" / "partition.metadata").exists()
    with node.running() as manager:
        assert [log.directory for log in manager.all_logs()] == [str(second / "orders-0")]


def test_a_moved_log_has_the_very_bytes_of_the_old_one(tmp_path: Path) -> None:
    data, other = fixture_copy("clean", tmp_path / "data"), tmp_path / "other"
    names = ["codecs", "txn", "compacted", "idempotent"]
    expected = {
        name: b"".join(path.read_bytes() for path in sorted((data / f"{name}-0").glob("*.log")))
        for name in names
    }

    with Node(data, other).running() as manager:
        for name in names:
            manager.move_log(TopicPartition(name, 0), other)

    found = {
        name: b"".join(path.read_bytes() for path in sorted((other / f"{name}-0").glob("*.log")))
        for name in names
    }
    assert found == expected


def test_a_log_that_starts_inside_a_batch_moves_with_its_start(tmp_path: Path) -> None:
    data, other = fixture_copy("clean", tmp_path / "data"), tmp_path / "other"
    key = TopicPartition("trimmed", 0)
    with Node(data, other).running() as manager:
        source = manager.get_log(key)
        assert source is not None
        expected = values(source)

        moved = manager.move_log(key, other)

        assert (moved.log_start_offset, moved.log_end_offset) == (17, 30)
        assert values(moved) == expected

    assert checkpoint(other, "log-start-offset-checkpoint") == {"trimmed-0": 17}


def test_appends_while_a_log_is_copied_are_copied_too(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with Node(first, second, log={"internal_segment_bytes": 500}).running() as manager:
        log = filled(manager, directory=first)
        copy = manager.get_or_create_log(ORDERS, is_future=True, directory=second)
        append(copy, *(b"another history" for _ in range(9)))  # it was cut there since
        for number in range(20):
            log.append_as_leader(batch(b"%d" % number), leader_epoch=1)
        log.truncate_to(5)

        moved = manager.move_log(ORDERS, second)

        assert moved.log_end_offset == 5


def test_a_log_whose_last_records_were_compacted_away_moves_with_its_end(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    node = compacted(first, second)
    with node.running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, directory=first)
        put(log, (b"other", b"0000"), *[(b"k", b"0000")] * 3)
        end = log.log_end_offset
        log.roll()
        put(log, (b"k", b"0000"))
        log.roll()
        assert clean(manager)
        manager.truncate_to({ORDERS: end})
        assert [record.key for record in read_all(log)] == [b"other"]

        moved = manager.move_log(ORDERS, second)

        assert moved.log_end_offset == end
        assert [record.key for record in read_all(moved)] == [b"other"]
    with node.running() as manager:
        again = manager.get_log(ORDERS)
        assert again is not None
        assert again.log_end_offset == end


def test_records_cut_off_during_a_move_are_not_in_the_copy(tmp_path: Path) -> None:
    """The log is as long as before when the move ends, with other records."""
    first, second = tmp_path / "a", tmp_path / "b"
    with Node(first, second).running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, directory=first)
        append(log, b"a", b"b", b"c", b"d")
        copy = manager.get_or_create_log(ORDERS, is_future=True, directory=second)
        copy_some(log, copy, 1 << 20)
        log.truncate_to(2)
        append(log, b"C", b"D", b"E")

        moved = manager.move_log(ORDERS, second)

        assert values(moved) == [b"a", b"b", b"C", b"D", b"E"]


def test_a_retry_is_recognised_after_a_move_though_the_records_of_its_producer_are_deleted(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    node = Node(first, second, log={"internal_segment_bytes": 200})
    with node.running(high_watermark_follows_end=True) as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, directory=first)
        log.append_as_leader(produced(7, 0, b"once"), leader_epoch=0)
        append(log, *[b"filler"] * 9)
        log.delete_records(8)
        log.delete_old_segments()

        moved = manager.move_log(ORDERS, second)
        end = moved.log_end_offset
        again = moved.append_as_leader(produced(7, 0, b"once"), leader_epoch=0)

        assert (again.first_offset, moved.log_end_offset) == (0, end)


def test_a_transaction_can_be_ended_after_a_move_though_its_first_records_are_deleted(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with Node(first, second).running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, directory=first)
        log.append_as_leader(produced(7, 0, b"deleted", transactional=True), leader_epoch=0)
        log.append_as_leader(produced(7, 1, b"kept", transactional=True), leader_epoch=0)
        log.update_high_watermark(2)
        log.delete_records(1)

        moved = manager.move_log(ORDERS, second)

        assert append_marker(moved, 7, ControlType.COMMIT) == 2
        moved.update_high_watermark(3)
        assert moved.last_stable_offset == 3


def compared(story: Story, copy: Log) -> int:
    offset = agreement(story.log, copy)
    copy.truncate_to(offset)
    return offset


def test_a_batch_in_a_gap_of_the_copy_is_not_lost() -> None:
    """The log was cut before the gap that compaction had left, and written again without a gap."""
    story = Story()
    story.append_each(b"a", b"b")
    copy = story.begin_copy()
    catch_up(story.log, copy)
    late = batch(b"last", base_offset=4)
    copy.append_as_follower(late, leader_epoch=0)
    story.append(b"c", b"d")
    story.append(b"last")

    assert compared(story, copy) == 2

    story.judge(story.move())


def test_a_batch_in_a_gap_at_the_end_of_the_copy_is_not_lost() -> None:
    story = Story()
    story.append_each(b"a", b"b")
    copy = story.begin_copy()
    catch_up(story.log, copy)
    copy.advance_to(5)
    story.append_each(b"c", b"d", b"e", b"f")

    assert compared(story, copy) == 2

    story.judge(story.move())


def test_a_gap_at_the_end_that_both_have_is_kept() -> None:
    story = Story()
    story.append_each(b"a", b"b")
    story.log.advance_to(5)
    copy = story.begin_copy()
    catch_up(story.log, copy)
    story.append(b"f")

    assert agreement(story.log, copy) == copy.log_end_offset == 5


def test_records_that_only_the_copy_has_deleted_are_copied_again() -> None:
    """The node was killed when the log had not stored its new start yet, but the copy had."""
    story = Story()
    story.append_each(*SINGLES)
    copy = story.begin_copy()
    copy.truncate_fully_and_start_at(4)
    catch_up(story.log, copy)

    assert compared(story, copy) == 0

    story.judge(story.move())
