"""A log that is changed while it is copied: at each step of the move, in each way that a log can be changed.

The change comes before a disk call that reads the log, or before an append to the copy. The mover holds no
lock of the log there, so its own thread can stand in for the other one. What the log must have at the end is
known from a list of what was appended, never from a file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stratalog.errors import LogMovedError
from stratalog.files.entries import Path
from stratalog.log.log import Log
from stratalog.manager import moving
from stratalog.manager.moving import catch_up
from stratalog.records.control import ControlType
from tests.log.model import append_marker, batch, produced, read_all
from tests.manager.moved import PLACES, SINGLES, Story, cut_and_append, wait_in_swap
from tests.manager.running import ORDERS
from tests.waiting import PATIENCE_S, AwaitedLock

SET_SIZE = len(batch(b"0"))


def cut_and_append_twice(story: Story) -> None:
    cut_and_append(story)
    story.truncate_to(1)
    story.append(b"p", b"q")
    story.append(b"r", b"s", b"t" * 50, b"u", b"v")


def cut_inside_a_batch(story: Story) -> None:
    story.append(b"x", b"y", b"z")
    story.truncate_to(7, first_removed=6)
    story.append(b"X", b"Y")


def cut_only(story: Story) -> None:
    story.truncate_to(3)


def cut_to_nothing(story: Story) -> None:
    story.truncate_to(0)


def cut_a_transaction(story: Story) -> None:
    story.log.append_as_leader(produced(7, 0, b"cut off", transactional=True), leader_epoch=0)
    append_marker(story.log, 7, ControlType.ABORT)
    story.truncate_to(4)
    story.append(b"E", b"F", b"G")


def empty_and_go_on_further(story: Story) -> None:
    story.manager.truncate_fully_and_start_at(ORDERS, 20)
    story.expected = {}
    story.append(b"n", b"o")


def empty_and_go_on_inside(story: Story) -> None:
    story.manager.truncate_fully_and_start_at(ORDERS, 3)
    story.expected = {}
    story.append(b"n", b"o")


def delete(story: Story) -> None:
    story.log.delete_records(4)
    story.give_up_before(4)


def delete_all(story: Story) -> None:
    story.log.delete_records(-1)
    story.expected = {}


def delete_inside_a_batch(story: Story) -> None:
    story.append(b"x", b"y", b"z")
    story.log.delete_records(7)
    story.give_up_before(7)


def delete_and_cut(story: Story) -> None:
    delete(story)
    story.truncate_to(1)
    story.append(b"B", b"C", b"D", b"E")


def roll(story: Story) -> None:
    story.append(b"g")
    story.log.roll()
    story.append(b"h")


CHANGES = [
    cut_and_append,
    cut_and_append_twice,
    cut_inside_a_batch,
    cut_only,
    cut_to_nothing,
    cut_a_transaction,
    empty_and_go_on_further,
    empty_and_go_on_inside,
    delete,
    delete_all,
    delete_inside_a_batch,
    delete_and_cut,
    roll,
]
Change = Callable[[Story], None]


class Steps:
    """Counts the steps of a move, and makes a change before one of them."""

    def __init__(self, story: Story, at: int, change: Change, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._story, self._at, self._change = story, at, change
        self._is_changing = False
        append = Log.append_as_follower

        def append_after_a_change(log: Log, *args: Any, **options: Any) -> object:
            self._step()
            return append(log, *args, **options)

        patch.setattr(Log, "append_as_follower", append_after_a_change)
        story.disk.before_step = self._before

    def _before(self, action: str, path: Path) -> None:
        path = str(path)
        if action == "read" and path.startswith(f"{PLACES[0]}/{ORDERS}/") and path.endswith(".log"):
            self._step()

    def _step(self) -> None:
        if self._is_changing:
            return
        self.count += 1
        if self.count == self._at:
            self._is_changing = True
            self._change(self._story)
            self._is_changing = False


def copied_with(change: Change, at: int) -> int:
    """A move with a change before this step of its copying; returns how many steps there were."""
    story = Story()
    story.append_each(*SINGLES)
    copy = story.begin_copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moving, "_CHUNK_SIZE", SET_SIZE)
        steps = Steps(story, at, change, patch)
        catch_up(story.log, copy)
        story.disk.before_step = None
    if at > steps.count:
        return steps.count
    story.judge(story.move())
    return steps.count


@pytest.mark.parametrize("change", CHANGES)
def test_a_log_that_is_changed_while_it_is_copied_moves_with_what_it_has(change: Change) -> None:
    """Cut and written again, the log has a batch across the end of the copy, which cannot be appended."""
    at = 1
    while at <= copied_with(change, at):
        at += 1

    assert at > 2 * len(SINGLES)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("end", ["closed", "killed"])
def test_a_move_that_another_run_began_goes_on_after_the_log_was_changed(change: Change, end: str) -> None:
    story = Story()
    story.append_each(*SINGLES)
    catch_up(story.log, story.begin_copy())
    story.manager.shutdown()
    story.start(PLACES[0])  # alone, so that nobody tells the copy
    change(story)
    if end == "closed":
        story.manager.shutdown()
    else:
        story.log.flush()
        story.manager._let_go()

    story.start()

    story.judge(story.move())


def test_a_truncation_that_waits_for_the_swap_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    story.append_each(*SINGLES)
    old, outcomes = story.log, []

    def late() -> None:
        try:
            outcomes.append(old.truncate_to(2))
        except LogMovedError as error:
            outcomes.append(error.directory)

    lock = old._guard.flush_lock = AwaitedLock()
    other = lock.waiter(late)
    wait_in_swap(monkeypatch, lock, other)
    moved = story.move()
    other.join(PATIENCE_S)

    assert outcomes == [moved.directory]
    story.judge(moved)


def test_a_move_interrupted_while_it_follows_a_truncation_follows_it_the_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    story.append_each(*SINGLES)
    catch_up(story.log, story.begin_copy())
    story.truncate_to(4)
    story.append_each(b"E", b"F", b"G")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Log, "truncate_to", interrupt)
        with pytest.raises(KeyboardInterrupt):
            story.move()

    story.judge(story.move())


def test_appends_that_do_not_stop_do_not_keep_a_copy_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    story.append_each(*SINGLES)
    copy = story.begin_copy()
    rounds, read = 0, Log.read

    def read_after_an_append(log: Log, *args: Any, **options: Any) -> object:
        nonlocal rounds
        rounds += 1
        assert rounds < 100
        story.append(b"one more")
        return read(log, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(moving, "_CHUNK_SIZE", SET_SIZE)
        patch.setattr(Log, "read", read_after_an_append)
        catch_up(story.log, copy)

    assert copy.log_end_offset >= len(SINGLES)
    story.judge(story.move())


def test_an_emptied_log_that_starts_before_its_first_segment_moves() -> None:
    """As a log does whose older records are in tiered storage; this was an endless loop."""
    story = Story()
    story.append_each(*SINGLES)
    catch_up(story.log, story.begin_copy())
    story.log.truncate_fully_and_start_at(20, 2)

    moved = story.move()

    assert (moved.log_start_offset, moved.log_end_offset, moved.segments.base_offsets) == (2, 20, (20,))


def test_a_high_watermark_below_the_start_does_not_keep_a_log_from_moving() -> None:
    """Both are in one batch: the high watermark is then where the batch begins, as in Kafka."""
    story = Story(follows_end=False)
    story.append(*SINGLES)
    story.log.update_high_watermark(3)
    story.log.delete_records(3)
    story.log.read(3, 1)
    assert story.log.high_watermark < story.log.log_start_offset
    story.give_up_before(3)

    moved = story.move()

    assert moved.high_watermark == 3
    story.judge(moved)


def test_a_log_whose_segments_were_larger_moves() -> None:
    story = Story(**{"internal.segment.bytes": 100 * SET_SIZE})
    story.append_each(*SINGLES)
    story.manager.update_topic_config(ORDERS.topic, {"internal.segment.bytes": 2 * SET_SIZE})

    moved = story.move()

    assert len(moved.segments) == 3
    assert [record.value for record in read_all(moved)] == SINGLES
