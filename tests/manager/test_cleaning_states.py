"""Who has a log while the cleaner is at work: Kafka's scenarios of its states."""

from __future__ import annotations

import pytest

from stratalog.errors import UsageError
from stratalog.files.names import TopicPartition
from stratalog.manager.cleaning_states import CleaningStates, State

LOG = TopicPartition("log", 0)


def test_a_log_is_taken_and_given_back() -> None:
    states = CleaningStates()
    states.begin(LOG)
    assert states.get(LOG) is State.IN_PROGRESS

    assert states.end(LOG)

    assert LOG not in states


def test_a_pause_of_a_log_in_progress_aborts_it_first() -> None:
    states = CleaningStates()
    states.begin(LOG)
    states.pause(LOG)
    assert states.get(LOG) is State.ABORTED

    assert not states.end(LOG)

    assert (states.get(LOG), states.pauses(LOG)) == (State.PAUSED, 1)


def test_pauses_nest() -> None:
    states = CleaningStates()
    states.pause(LOG)
    states.pause(LOG)
    states.resume(LOG)
    assert states.get(LOG) is State.PAUSED

    states.resume(LOG)

    assert states.get(LOG) is None


def test_steps_that_do_not_follow_are_refused() -> None:
    states = CleaningStates()
    for step in (states.resume, states.end):
        with pytest.raises(UsageError, match="idle"):
            step(LOG)
    states.begin(LOG)
    for step in (states.begin, states.resume):
        with pytest.raises(UsageError, match="being cleaned"):
            step(LOG)
    states.pause(LOG)
    with pytest.raises(UsageError, match="being stopped"):
        states.pause(LOG)
    states.end(LOG)
    for step in (states.begin, states.end):
        with pytest.raises(UsageError, match="paused"):
            step(LOG)
