"""Copies of logs on their way to another directory, beside the cleaner, and the swap."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stratalog.errors import LogClosedError, LogDeletedError, LogMovedError, UsageError
from stratalog.files.names import TopicPartition
from stratalog.log.log import Log
from stratalog.log.reading import Isolation
from stratalog.manager.copies import Copies
from stratalog.manager.manager import LogManager
from stratalog.manager.moving import catch_up
from tests.log.model import read_all
from tests.manager.compacting import CLEAN, RETENTION_MS, SET_SIZE, clean, compacted, copy_some, put, table
from tests.manager.moved import PLACES, SINGLES, Story, cut_and_append, wait_in_swap
from tests.manager.running import (
    ORDERS,
    Node,
    append,
    changes,
    checkpoint,
    contents_of,
    directories_in,
    filled,
    values,
)
from tests.waiting import PATIENCE_S, AwaitedLock

APPENDS = 421


def test_a_copy_on_its_way_is_found_again_after_a_restart(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    node = Node(first, second)
    with node.running() as manager:
        filled(manager, directory=first)
        copy = manager.get_or_create_log(ORDERS, is_future=True, directory=second)
        append(copy, b"a")

    assert directories_in(second)[0].endswith("-future")
    assert checkpoint(second, "recovery-point-offset-checkpoint") == {"orders-0": 1}
    with node.running() as manager:
        copy_again = manager.get_log(ORDERS, is_future=True)
        assert copy_again is not None
        assert values(copy_again) == [b"a"]
        moved = manager.move_log(ORDERS, second)
        assert values(moved) == [b"a", b"b", b"c"]


def test_a_copy_that_lacks_something_does_not_take_the_place(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with Node(first, second).running() as manager:
        log = filled(manager, directory=first)
        with pytest.raises(UsageError, match="no complete copy"):
            manager.replace_current_with_future_log(ORDERS)
        manager.get_or_create_log(ORDERS, is_future=True, directory=second)
        with pytest.raises(UsageError, match="no complete copy"):
            manager.replace_current_with_future_log(ORDERS)

        assert manager.get_log(ORDERS) is log


def test_a_copy_is_deleted_without_the_log(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with Node(first, second).running() as manager:
        log = filled(manager, directory=first)
        manager.get_or_create_log(ORDERS, is_future=True, directory=second)

        manager.async_delete(ORDERS, is_future=True)

        assert manager.get_log(ORDERS) is log
        assert directories_in(second)[0].endswith("-delete")


def two_rounds(node: Node, manager: LogManager) -> None:
    """Let the cleaner do all it can: what it marks in the first round, it drops in the second."""
    for _ in range(2):
        while clean(manager):
            pass
        log = manager.get_log(ORDERS)
        assert log is not None
        put(log, *[(b"filler", b"0000")] * 4)
        node.wait(2 * RETENTION_MS)


def test_a_key_deleted_while_its_log_was_copied_is_not_back_two_rounds_later(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    node = compacted(first, second)
    with node.running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, directory=first)
        put(log, (b"k", b"0000"), (b"other", b"0000"), (b"other", b"0000"))
        copy = manager.get_or_create_log(ORDERS, is_future=True, directory=second)
        copy_some(log, copy, 3 * SET_SIZE)
        put(log, (b"k", None), *[(b"filler", b"0000")] * 4)

        two_rounds(node, manager)
        moved = manager.move_log(ORDERS, second)
        two_rounds(node, manager)

        assert b"k" not in table(moved)
        assert b"k" not in {record.key for record in read_all(moved)}  # cleaned again, now that it has moved


def test_a_log_is_not_cleaned_from_before_its_copy_is_begun_until_the_swap(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with compacted(first, second).running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, directory=first)
        put(log, *[(b"k", b"0000")] * 10)
        manager.get_or_create_log(ORDERS, is_future=True, directory=second)

        assert not clean(manager)

        moved = manager.move_log(ORDERS, second)
        assert clean(manager)
        assert len(read_all(moved)) < 10


def test_a_log_is_cleaned_again_when_its_copy_is_given_up(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with compacted(first, second).running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, directory=first)
        put(log, *[(b"k", b"0000")] * 10)
        manager.get_or_create_log(ORDERS, is_future=True, directory=second)
        manager.async_delete(ORDERS, is_future=True)

        assert clean(manager)


def test_a_log_is_cleaned_again_when_the_directory_of_its_copy_fails(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with compacted(first, second).running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, directory=first)
        put(log, *[(b"k", b"0000")] * 10)
        manager.get_or_create_log(ORDERS, is_future=True, directory=second)
        manager.handle_log_dir_failure(second, UsageError("pulled out"))

        assert clean(manager)


def test_a_log_whose_copy_was_begun_before_a_restart_is_not_cleaned_either(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    node = compacted(first, second)
    with node.running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, directory=first)
        put(log, *[(b"k", b"0000")] * 10)
        manager.get_or_create_log(ORDERS, is_future=True, directory=second)

    with node.running() as manager:
        assert not clean(manager)


def compacted_between_two_runs(tmp_path: Path) -> Node:
    """A copy with a record, and a log that was cleaned since by a program that does not know the copy."""
    first, second = tmp_path / "a", tmp_path / "b"
    node = compacted(first, second)
    with node.running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, directory=first)
        put(log, (b"k", b"0000"), (b"other", b"0000"), (b"other", b"0000"))
        copy_some(log, manager.get_or_create_log(ORDERS, is_future=True, directory=second), 3 * SET_SIZE)
        put(log, (b"k", None), *[(b"filler", b"0000")] * 4)
    alone = compacted(first)
    with alone.running() as manager:
        two_rounds(alone, manager)
    return node


def test_a_copy_begun_before_the_log_was_compacted_brings_no_deleted_key_back(tmp_path: Path) -> None:
    node = compacted_between_two_runs(tmp_path)
    with node.running() as manager:
        moved = manager.move_log(ORDERS, tmp_path / "b")

        assert b"k" not in table(moved)


def test_a_copy_begun_before_the_log_was_compacted_is_refused_at_the_swap(tmp_path: Path) -> None:
    node = compacted_between_two_runs(tmp_path)
    with node.running() as manager:
        log, copy = manager.get_log(ORDERS), manager.get_log(ORDERS, is_future=True)
        assert log is not None
        assert copy is not None
        while copy.log_end_offset < log.log_end_offset:
            copy_some(log, copy, 1 << 20)

        with pytest.raises(UsageError, match=r"differs from .* from offset 0 on"):
            manager.replace_current_with_future_log(ORDERS)

        assert manager.get_log(ORDERS) is log


def test_a_checkpoint_left_in_a_directory_says_nothing_about_the_log_that_comes_back(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with compacted(first, second).running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, directory=first)
        put(log, *[(b"k", b"0000")] * 10)
        (second / CLEAN).write_text("0\n1\norders 0 9\n")

        manager.move_log(ORDERS, second)

        assert checkpoint(second, CLEAN) == {}


def test_a_handle_from_before_a_move_refuses_every_change_and_says_where_the_log_is(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with Node(first, second).running(high_watermark_follows_end=True) as manager:
        old = manager.get_or_create_log(ORDERS, is_new=True, directory=first)
        append(old, b"a", b"b", b"c")
        moved = manager.move_log(ORDERS, second)
        before = contents_of(first)

        for change in changes(old):
            with pytest.raises(LogMovedError, match="was moved to") as caught:
                change()
            assert caught.value.directory == moved.directory

        assert contents_of(first) == before
        assert values(old) == values(moved) == [b"a", b"b", b"c"]
        old.close()
        assert contents_of(first) == before
        with pytest.raises(LogClosedError):
            values(old)


def test_no_append_is_lost_while_a_log_moves_to_and_fro(tmp_path: Path) -> None:
    """Each of 421 appends is in the log that is there at the end, or was refused and made again."""
    homes = [tmp_path / "a", tmp_path / "b"]
    node = Node(*homes, log={"internal_segment_bytes": 2000, "flush_messages": 7})
    written: list[bytes] = []
    refused: list[int] = []
    moves_count = 0
    with node.running(high_watermark_follows_end=True) as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, directory=homes[0])

        def write() -> None:
            handle = log
            for number in range(APPENDS):
                while True:
                    try:
                        append(handle, b"%d" % number)
                        break
                    except LogMovedError:
                        refused.append(number)
                        found = manager.get_log(ORDERS)
                        assert found is not None
                        handle = found
                written.append(b"%d" % number)

        writer = threading.Thread(target=write)
        writer.start()
        while writer.is_alive():
            moves_count += 1
            manager.move_log(ORDERS, homes[moves_count % 2])
        writer.join(PATIENCE_S)

        last = manager.get_log(ORDERS)
        assert last is not None
        assert len(written) == APPENDS
        assert values(last) == written
        if moves_count > 1:
            assert refused


def test_an_append_that_waits_for_the_swap_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that would have been acknowledged, and only be in the -delete directory."""
    first, second = tmp_path / "a", tmp_path / "b"
    with Node(first, second).running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, directory=first)
        append(log, b"a")
        outcomes: list[object] = []

        def late() -> None:
            try:
                outcomes.append(append(log, b"late"))
            except LogMovedError as error:
                outcomes.append(error.directory)

        lock = log._guard.lock = AwaitedLock()
        writer = lock.waiter(late)
        wait_in_swap(monkeypatch, lock, writer)
        moved = manager.move_log(ORDERS, second)
        writer.join(PATIENCE_S)

        assert outcomes == [moved.directory]
        assert values(moved) == [b"a"]


USES: dict[str, Callable[[Story], object]] = {
    "append": lambda story: story.append(b"late"),
    "append to the copy": lambda story: append(copy_of(story), b"late"),
    "flush the copy": lambda story: copy_of(story).flush(),
    "truncate_to": lambda story: story.truncate_to(4),
    "delete_records": lambda story: (story.log.delete_records(3), story.give_up_before(3)),
    "move": lambda story: story.manager.move_log(ORDERS, PLACES[1]),
    "move to another directory": lambda story: story.manager.move_log(ORDERS, PLACES[2]),
    "swap": lambda story: story.manager.replace_current_with_future_log(ORDERS),
    "async_delete": lambda story: story.manager.async_delete(ORDERS),
}


def copy_of(story: Story) -> Log:
    copy = story.manager.get_log(ORDERS, is_future=True)
    return story.log if copy is None else copy


@pytest.mark.parametrize("use", USES)
def test_a_signal_handler_in_the_middle_of_a_swap_is_refused_at_each_step(use: str) -> None:
    """An append was acknowledged, and only in the log that was then deleted."""
    story = Story()
    story.append_each(*SINGLES)
    log, told = story.log, list[type[BaseException]]()

    def handler(*_: object) -> None:
        if log._guard.lock._is_owned():
            story.disk.before_step = None
            with pytest.raises((UsageError, LogMovedError)) as raised:
                USES[use](story)
            told.append(raised.type)
            story.disk.before_step = handler

    story.disk.before_step = handler
    moved = story.move()
    story.disk.before_step = None

    assert told.count(UsageError) > 10
    story.log = moved
    story.judge(moved)


def test_a_copy_on_its_way_to_another_directory_gives_way(tmp_path: Path) -> None:
    homes = [tmp_path / name for name in "abc"]
    with Node(*homes).running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, directory=homes[0])
        append(log, b"a")
        manager.get_or_create_log(ORDERS, is_future=True, directory=homes[1])

        moved = manager.move_log(ORDERS, homes[2])

        assert moved.directory == str(homes[2] / "orders-0")
        assert values(moved) == [b"a"]
        assert manager.get_log(TopicPartition("orders", 0), is_future=True) is None


def test_a_log_that_was_cut_is_not_replaced_by_a_copy_of_what_it_was() -> None:
    """A copy that is filled in steps, and is as long as the log again."""
    story = Story()
    story.append_each(*SINGLES)
    copy = story.begin_copy()
    catch_up(story.log, copy)
    story.truncate_to(4)
    story.append_each(b"E", b"F")

    with pytest.raises(UsageError, match="from offset 4 on: the log was truncated"):
        story.manager.replace_current_with_future_log(ORDERS)

    copy.truncate_to(4)
    copy.append_as_follower(story.log.read(4, 1 << 20, isolation=Isolation.LOG_END).records, leader_epoch=0)
    story.judge(story.manager.replace_current_with_future_log(ORDERS))


def moving_in_the_background(story: Story, patch: pytest.MonkeyPatch) -> tuple[threading.Event, Any, Any]:
    """A move that waits in the middle; returns what lets it go on, its thread, and its outcomes."""
    reached, opened, outcomes = threading.Event(), threading.Event(), []
    fill = Copies.fill

    def wait(copies: Copies, *args: Any) -> None:
        if threading.current_thread() is first:
            catch_up(*args)
            reached.set()
            assert opened.wait(PATIENCE_S)
        fill(copies, *args)

    def run() -> None:
        try:
            outcomes.append(story.move())
        except LogDeletedError as error:
            outcomes.append(error)

    patch.setattr(Copies, "fill", wait)
    first = threading.Thread(target=run)
    first.start()
    assert reached.wait(PATIENCE_S)
    return opened, first, outcomes


def test_a_move_to_another_directory_ends_the_one_that_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    story.append_each(*SINGLES)
    opened, first, outcomes = moving_in_the_background(story, monkeypatch)
    cut_and_append(story)
    end = story.manager.async_delete

    def deleted(*args: Any, **options: Any) -> object:
        found = end(*args, **options)
        opened.set()
        return found

    monkeypatch.setattr(story.manager, "async_delete", deleted)
    moved = story.manager.move_log(ORDERS, PLACES[2])
    first.join(PATIENCE_S)

    assert [type(outcome) for outcome in outcomes] == [LogDeletedError]
    assert moved.directory == f"{PLACES[2]}/{ORDERS}"
    assert {record.offset: record.value for record in read_all(moved)} == story.expected


def test_a_second_move_to_the_same_directory_waits_for_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    story.append_each(*SINGLES)
    opened, first, outcomes = moving_in_the_background(story, monkeypatch)
    cut_and_append(story)
    filling = Copies.filling

    def about_to_wait(copies: Copies, *args: Any) -> Any:
        opened.set()
        return filling(copies, *args)

    monkeypatch.setattr(Copies, "filling", about_to_wait)
    with pytest.raises(UsageError, match="a copy needs a log in another directory"):
        story.move()
    first.join(PATIENCE_S)

    story.judge(outcomes[0])
