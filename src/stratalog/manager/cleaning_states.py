"""The cleaning state of each log: being cleaned, or paused.

An idle log has no state; the cleaner takes it (IN_PROGRESS). A caller that wants no cleaning pauses the log.
A log may be paused several times; pausing a log that is being cleaned aborts the cleaning first.

Kafka: LogCleaningState
"""

from __future__ import annotations

from enum import Enum

from stratalog.errors import UsageError
from stratalog.files.names import TopicPartition


class State(Enum):
    """The state of a log that is not idle. A paused log also has a count of its pauses."""

    IN_PROGRESS = "being cleaned"
    ABORTED = "being stopped"
    PAUSED = "paused"


class CleaningStates:
    """The state of each log; UsageError for a step that the state does not allow. Not thread-safe."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, tuple[State, int]] = {}

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._states

    def get(self, topic_partition: TopicPartition) -> State | None:
        return self._states.get(topic_partition, (None, 0))[0]

    def pauses(self, topic_partition: TopicPartition) -> int:
        """How many times it is paused."""
        return self._states.get(topic_partition, (None, 0))[1]

    def begin(self, topic_partition: TopicPartition) -> None:
        """Called when the cleaner takes an idle log."""
        self._check(topic_partition, None)
        self._states[topic_partition] = (State.IN_PROGRESS, 0)

    def pause(self, topic_partition: TopicPartition) -> None:
        """Pause a log. If it is being cleaned, the cleaning is aborted, and the log is paused after that."""
        state, count = self._states.get(topic_partition, (None, 0))
        if state is State.IN_PROGRESS:
            self._states[topic_partition] = (State.ABORTED, 0)
        elif state is State.ABORTED:
            raise UsageError(
                f"{topic_partition} is {state.value}: it cannot be paused before that has finished."
            )
        else:
            self._states[topic_partition] = (State.PAUSED, count + 1)

    def resume(self, topic_partition: TopicPartition) -> None:
        """Undo one pause."""
        self._check(topic_partition, State.PAUSED)
        count = self._states[topic_partition][1]
        if count == 1:
            del self._states[topic_partition]
        else:
            self._states[topic_partition] = (State.PAUSED, count - 1)

    def end(self, topic_partition: TopicPartition) -> bool:
        """Called when a cleaning has ended; True if it was not aborted, so its result counts."""
        self._check(topic_partition, State.IN_PROGRESS, State.ABORTED)
        was_aborted = self._states.pop(topic_partition)[0] is State.ABORTED
        if was_aborted:
            self._states[topic_partition] = (State.PAUSED, 1)
        return not was_aborted

    def _check(self, topic_partition: TopicPartition, *expected: State | None) -> None:
        state = self.get(topic_partition)
        if state not in expected:
            words = "idle" if state is None else state.value
            wanted = " or ".join("idle" if each is None else each.value for each in expected)
            raise UsageError(f"{topic_partition} is {words}, but must be {wanted}.")
