"""Follows a log: its records as they arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from stratalog.clock import Clock
from stratalog.log.api.consume import ConsumerRecord, consume, end_of
from stratalog.log.api.view import LogView
from stratalog.log.log import Log
from stratalog.log.reading import Isolation, out_of_range


class TailStop(Protocol):
    """Ends a `tail`: a threading.Event, or any object that waits like one."""

    def wait(self, timeout: float | None = None) -> bool: ...


def follow(
    log: Log | LogView,
    position: int,
    level: Isolation,
    *,
    poll_ms: int,
    timeout_ms: int | None,
    stop: TailStop,
    refresh: Callable[[], object],
    clock: Clock,
) -> Iterator[ConsumerRecord]:
    """The records from a position on, until `stop` is set or none came for `timeout_ms`.

    `refresh` is called before each further look at the log.
    """
    last_ms = clock()
    while not stop.wait(0):
        end = end_of(log, level)
        if position > log.log_end_offset:
            # The log was truncated meanwhile: the next records would have offsets that were already returned.
            raise out_of_range(position, log.log_start_offset, log.log_end_offset)
        for record in consume(log, position, end, level):
            position = record.offset + 1
            yield record
            last_ms = clock()
            if stop.wait(0):
                return
        # After the last record there may be markers and gaps, which need not be read again.
        position = max(position, end)
        if isinstance(log, Log) and log.failure is not None:
            raise log.failure  # no more records will come
        if timeout_ms is not None and clock() - last_ms >= timeout_ms:
            return
        if stop.wait(poll_ms / 1000):
            return
        refresh()
