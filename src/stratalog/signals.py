"""A graceful stop: the first signal asks the program to end, and the program ends once its work is done.

    with stratalog.graceful_stop() as stop, stratalog.open_log("data/orders-0") as log:
        while not stop.wait(1):
            log.append(measure())

By default SIGTERM ends a program at once, with its logs unclosed, and SIGINT raises KeyboardInterrupt
anywhere in the code. Here both only set the stop. A `threading.Event` would not work: its lock may be held by
the very code that the handler interrupts. So a stop is a pipe: setting it writes a byte that nobody reads,
and any number of threads can wait until the pipe is readable.
"""

from __future__ import annotations

import math
import os
import select
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from weakref import finalize

from stratalog.errors import UsageError, WrongTypeError
from stratalog.files.processes import tell_in_child

_LONGEST_POLL_MS = 1 << 30  # `poll` takes an int of C


class GracefulStop:
    """Ends a program or a `tail`; waits like a threading.Event. `signal` is the signal received, if any."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._is_set = False
        self._readable, self._writable = os.pipe()
        tell_in_child(self)
        for descriptor in (self._readable, self._writable):
            finalize(self, os.close, descriptor)  # other threads may still wait after the `with`

    def set(self) -> None:
        """Request the end, as the signals do."""
        if not self._is_set:
            self._is_set = True
            os.write(self._writable, b"\0")

    def is_set(self) -> bool:
        return self._is_set

    def fileno(self) -> int:
        """A descriptor that becomes readable when the stop is set, to wait for it and for other things."""
        return self._readable

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, for at most `timeout` seconds; returns whether it is set.

        A timeout that is not above 0 does not wait.
        """
        until = math.inf if timeout is None else time.monotonic() + timeout
        waiting = select.poll()
        waiting.register(self._readable, select.POLLIN)
        while not self._is_set and (left_s := until - time.monotonic()) > 0:
            waiting.poll(math.ceil(min(left_s * 1000, _LONGEST_POLL_MS)))
        return self._is_set

    def start_over_in_child(self) -> None:
        """After a fork: open a new pipe, because setting the old one would wake the parent."""
        readable, writable = os.pipe()
        os.dup2(readable, self._readable, inheritable=False)
        os.dup2(writable, self._writable, inheritable=False)
        os.close(readable)
        os.close(writable)
        if self._is_set:
            os.write(self._writable, b"\0")


@contextmanager
def graceful_stop(
    signals: Iterable[signal.Signals] = (signal.SIGTERM, signal.SIGINT),
) -> Iterator[GracefulStop]:
    """A `GracefulStop` that the first of these signals sets; a second signal has its usual effect.

    Use it in the main thread, where Python handles signals. A signal that is ignored stays ignored: a shell
    ignores SIGINT for programs in the background. In a forked child the signals have their usual effect.
    If one `graceful_stop` is inside another, a signal sets both, so that the whole program ends.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UsageError("graceful_stop handles signals, and Python does that only in the main thread.")
    handling = _Handling(GracefulStop(), _checked(signals))
    try:
        handling.begin()
        yield handling.stop
    finally:
        handling.end()


class _Handling:
    """The handler of some signals while a stop waits for one of them, and the handlers that it replaced."""

    def __init__(self, stop: GracefulStop, signals: Iterable[signal.Signals]) -> None:
        self.stop = stop
        self._process = os.getpid()
        self._is_over = False
        self._before: dict[int, Any] = {}  # Any: what signal.getsignal returns, a handler or a number
        for number in signals:
            handler = signal.getsignal(number)
            if (
                handler is not None and handler != signal.SIG_IGN
            ):  # None: set outside Python, cannot be restored
                self._before[number] = handler

    def begin(self) -> None:
        for number in self._before:
            signal.signal(number, self.handle)

    def end(self) -> None:
        """Restore the earlier handlers, except those of another `graceful_stop` that has ended meanwhile."""
        self._is_over = True
        for number in self._before:
            if signal.getsignal(number) == self.handle:
                signal.signal(number, self._usual(number))

    def handle(self, number: int, frame: FrameType | None) -> None:
        outer = _handling_of(self._usual(number))
        self.end()
        if os.getpid() != self._process:
            os.kill(os.getpid(), number)
            return
        self.stop.signal = signal.Signals(number)
        self.stop.set()
        if outer is not None:
            outer.handle(number, frame)

    def _usual(self, number: int) -> Any:
        handler = self._before[number]
        other = _handling_of(handler)
        return other._usual(number) if other is not None and other._is_over else handler


def _handling_of(handler: Any) -> _Handling | None:
    """The handling of a `graceful_stop` around this one, if the handler belongs to one."""
    owner = getattr(handler, "__self__", None)
    return owner if isinstance(owner, _Handling) else None


def _checked(signals: Iterable[signal.Signals]) -> list[signal.Signals]:
    try:
        return [signal.Signals(number) for number in signals]
    except (TypeError, ValueError) as error:
        raise WrongTypeError(f"signals is {signals!r}: it must be a list like [signal.SIGTERM].") from error
