"""Which log the cleaner's threads get next, and the checkpoint of what is clean."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from stratalog.log.cleaning.choice import LogToClean
from stratalog.manager import cleaner_manager
from stratalog.manager.cleaning_states import State
from tests.manager.compacting import CLEAN, SET_SIZE, A, B, clean, fill, new_log, node
from tests.manager.running import checkpoint


def test_the_dirtiest_log_goes_first(tmp_path: Path) -> None:
    with node(tmp_path).running() as manager:
        first, second = new_log(manager, A), new_log(manager, B)
        clean(manager)
        clean(manager)
        fill(first, 5)
        fill(second, 20)

        assert clean(manager)

        assert checkpoint(tmp_path, CLEAN)["b-0"] > 10
        assert checkpoint(tmp_path, CLEAN)["a-0"] == 10


def test_a_log_in_progress_or_paused_is_not_taken_again(tmp_path: Path) -> None:
    with node(tmp_path).running() as manager:
        new_log(manager)
        cleaner = manager.cleaner.manager
        cleaner.abort_and_pause(A)
        assert cleaner.grab_filthiest() is None
        cleaner.resume([A])

        found = cleaner.grab_filthiest()

        assert found is not None
        assert cleaner.grab_filthiest() is None
        cleaner.done_cleaning(found[0], 0)


def test_a_log_that_is_deleted_while_it_is_chosen_does_not_end_the_cleaner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`async_delete` has resumed the cleaning, and takes the log away between the choice and its use."""
    with node(tmp_path).running() as manager:
        log = new_log(manager)
        cleaner = manager.cleaner.manager
        filthiest = cleaner_manager.filthiest

        def deleted_meanwhile(found: Iterable[LogToClean]) -> LogToClean | None:
            chosen = filthiest(found)
            manager._logs.remove(A, is_future=False)
            return chosen

        monkeypatch.setattr(cleaner_manager, "filthiest", deleted_meanwhile)

        found = cleaner.grab_filthiest()

        assert found is not None
        assert found[0] is log
        cleaner.done_cleaning(log, 10)
        assert cleaner.state(A) is None
        assert cleaner.clean_offsets(str(tmp_path)) == {}
        log.close()


def test_a_log_that_was_made_again_is_not_clean_as_far_as_the_deleted_one(tmp_path: Path) -> None:
    with node(tmp_path).running() as manager:
        new_log(manager)
        cleaner = manager.cleaner.manager
        found = cleaner.grab_filthiest()
        assert found is not None
        manager._logs.remove(A, is_future=False)
        found[0].close_handlers()
        manager.get_or_create_log(A, is_new=True)

        cleaner.done_cleaning(found[0], 10)

        assert cleaner.clean_offsets(str(tmp_path)) == {}


def test_a_checkpoint_that_is_no_use_is_written_anew_although_nothing_is_cleaned(tmp_path: Path) -> None:
    with node(tmp_path).running() as manager:
        log = new_log(manager, count=4)
        (tmp_path / CLEAN).write_text("0\n1\na 0 99\n")

        assert not clean(manager)

        assert checkpoint(tmp_path, CLEAN) == {"a-0": log.log_start_offset}


def test_entries_of_logs_that_are_gone_go_with_the_next_writing(tmp_path: Path) -> None:
    with node(tmp_path).running() as manager:
        new_log(manager)
        (tmp_path / CLEAN).write_text("0\n2\na 0 0\ngone 3 7\n")

        clean(manager)

        assert checkpoint(tmp_path, CLEAN) == {"a-0": 10}


def test_what_was_aborted_does_not_count_as_clean(tmp_path: Path) -> None:
    """Whoever stopped it may have cut the log since."""
    with node(tmp_path).running() as manager:
        new_log(manager)
        cleaner = manager.cleaner.manager
        found = cleaner.grab_filthiest()
        assert found is not None
        other = threading.Thread(target=cleaner.abort_and_pause, args=(A,))
        other.start()
        while cleaner.state(A) is not State.ABORTED:
            assert other.is_alive()

        cleaner.done_cleaning(found[0], 10)

        other.join(20)
        assert cleaner.state(A) is State.PAUSED
        assert cleaner.clean_offsets(str(tmp_path)) == {}
        cleaner.resume([A])


def test_a_log_that_moves_takes_its_checkpoint_along(tmp_path: Path) -> None:
    first, second = tmp_path / "x", tmp_path / "y"
    with node(first, second).running() as manager:
        manager.set_preferred_log_dir(A, first)
        new_log(manager)
        clean(manager)

        manager.move_log(A, second)

        assert checkpoint(second, CLEAN) == {"a-0": 10}
        assert checkpoint(first, CLEAN) == {}


def test_a_deleted_log_takes_its_checkpoint_along(tmp_path: Path) -> None:
    with node(tmp_path).running() as manager:
        new_log(manager)
        clean(manager)

        manager.async_delete(A)

        assert checkpoint(tmp_path, CLEAN) == {}


def test_retention_and_the_cleaner_keep_off_each_other_s_logs(tmp_path: Path) -> None:
    """While retention is at a log its policy may change to compact, and the cleaner must not begin."""
    with node(tmp_path, policy="delete").running() as manager:
        new_log(manager)
        cleaner = manager.cleaner.manager
        paused = cleaner.pause_not_compacted()

        manager.update_topic_config(
            "a", {"cleanup.policy": "compact", "internal.segment.bytes": 5 * SET_SIZE}
        )
        assert cleaner.grab_filthiest() is None
        cleaner.resume(log.topic_partition for log in paused)

        found = cleaner.grab_filthiest()
        assert found is not None
        cleaner.done_cleaning(found[0], 0)
