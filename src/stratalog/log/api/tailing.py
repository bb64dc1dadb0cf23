"""Follows a log: its records as they arrive, for a thread or for an asyncio loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple, Protocol, Self

from stratalog.clock import Clock
from stratalog.errors import UsageError, WrongTypeError
from stratalog.log.api.consume import consume, end_of
from stratalog.log.api.consumer_records import ConsumerRecord
from stratalog.log.api.view import LogView
from stratalog.log.log import Log
from stratalog.log.reading import Isolation, out_of_range

_LONGEST_POLL_MS = int(threading.TIMEOUT_MAX) * 1000
_AT_ONCE = 500  # records that one call in a thread returns


class TailStop(Protocol):
    """Ends a `tail`: a threading.Event, or any object that waits like one."""

    def wait(self, timeout: float | None = None) -> bool: ...


class AsyncStop(Protocol):
    """Ends a `tail_async`: an asyncio.Event, a threading.Event, or any object with `is_set`."""

    def is_set(self) -> bool: ...


class Wait(NamedTuple):
    """How often to look for new records, and when to give up if none come (None: never)."""

    poll_s: float
    timeout_ms: float | None

    @classmethod
    def of(cls, poll_ms: float, timeout_ms: float | None) -> Self:
        """From the milliseconds that a caller gave; UsageError if these are not valid."""
        for name, value in (("poll_ms", poll_ms), ("timeout_ms", timeout_ms)):
            if value is None and name == "timeout_ms":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise WrongTypeError(f"{name} is {value!r}: it must be a number of milliseconds.")
            if value < 0:
                raise UsageError(f"{name} is {value}: milliseconds cannot be negative.")
            if value != value:
                raise UsageError(f"{name} is {value}: it must be a number of milliseconds.")
        if poll_ms > _LONGEST_POLL_MS:
            raise UsageError(f"poll_ms is longer than a thread can wait: the most is {_LONGEST_POLL_MS}.")
        return cls(poll_ms / 1000, timeout_ms)


class LogTail:
    """A reader that follows a log: its position, and the records that came since."""

    def __init__(self, log: Log | LogView, position: int, level: Isolation) -> None:
        self._log, self._position, self._level = log, position, level

    def new_records(self) -> Iterator[ConsumerRecord]:
        """The records from the position up to the end of the log as it is now."""
        log = self._log
        end = end_of(log, self._level)
        if self._position > log.log_end_offset:
            # The log was truncated meanwhile: the next records would have offsets that this reader has
            # already seen.
            raise out_of_range(self._position, log.log_start_offset, log.log_end_offset)
        for record in consume(log, self._position, end, self._level):
            self._position = record.offset + 1
            yield record
        # After the last record there may be markers and gaps, which need not be read again.
        self._position = max(self._position, end)
        if isinstance(log, Log) and log.failure is not None:
            raise log.failure  # no record will come any more


def follow(
    log: Log | LogView,
    position: int,
    level: Isolation,
    wait: Wait,
    *,
    stop: TailStop,
    refresh: Callable[[], object],
    clock: Clock,
) -> Iterator[ConsumerRecord]:
    """The records from a position on, until `stop` is set or none came for `timeout_ms`.

    `refresh` is called before each further look at the log.
    """
    tail = LogTail(log, position, level)
    last_ms = clock()
    while not stop.wait(0):
        for record in tail.new_records():
            yield record
            last_ms = clock()
            if stop.wait(0):
                return
        if wait.timeout_ms is not None and clock() - last_ms >= wait.timeout_ms:
            return
        if stop.wait(wait.poll_s):
            return
        refresh()


async def follow_async(
    log: Log | LogView,
    position: int,
    level: Isolation,
    wait: Wait,
    *,
    stop: AsyncStop | None,
    refresh: Callable[[], object],
    clock: Clock,
) -> AsyncIterator[ConsumerRecord]:
    """As `follow`; a thread reads some records at a time, and the loop waits without a thread."""
    tail = LogTail(log, position, level)
    last_ms = clock()

    def is_stopped() -> bool:
        return stop is not None and stop.is_set()

    while not is_stopped():
        new = tail.new_records()
        while found := await asyncio.to_thread(lambda: [*islice(new, _AT_ONCE)]):  # noqa: B023 (awaited here)
            for record in found:
                yield record
                last_ms = clock()
                if is_stopped():
                    return
        if wait.timeout_ms is not None and clock() - last_ms >= wait.timeout_ms:
            return
        if isinstance(stop, asyncio.Event):
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), wait.poll_s)
        else:
            await asyncio.sleep(wait.poll_s)
        if is_stopped():
            return
        await asyncio.to_thread(refresh)
