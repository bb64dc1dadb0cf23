"""A graceful stop: the first signal asks the program to end, and the program ends once its work is done.

    with stratalog.graceful_stop() as stop, stratalog.open_log("data/orders-0") as log:
        while not stop.wait(1):
            log.append(measure())

SIGTERM ends a program at once, with its logs unclosed; SIGINT raises KeyboardInterrupt anywhere in the code.
Here both only set the stop. A `threading.Event` would not work: its lock may be held by the very code that
the handler interrupts. So a stop is a pipe: setting it writes a byte that nobody reads, and any number of
threads can wait until the pipe is readable.
"""

from __future__ import annotations

import math
import os
import select
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from weakref import finalize

from stratalog.errors import UsageError
from stratalog.files.processes import tell_in_child


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

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, for at most `timeout` seconds; returns whether it is set."""
        if not self._is_set and timeout != 0:
            waiting = select.poll()
            waiting.register(self._readable, select.POLLIN)
            waiting.poll(None if timeout is None else math.ceil(timeout * 1000))
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
    """
    if threading.current_thread() is not threading.main_thread():
        raise UsageError("graceful_stop handles signals, and Python does that only in the main thread.")
    stop = GracefulStop()
    process = os.getpid()
    before: dict[signal.Signals, Any] = {}  # Any: what signal.getsignal returns, a handler or a number

    def restore() -> None:
        for number, handler in before.items():
            if signal.getsignal(number) is handle:
                signal.signal(number, handler)

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        restore()
        if os.getpid() != process:
            os.kill(os.getpid(), number)
            return
        stop.signal = signal.Signals(number)
        stop.set()

    for number in signals:
        handler = signal.getsignal(number)
        if handler is not None and handler != signal.SIG_IGN:  # None: set outside Python, cannot be restored
            before[number] = handler
    try:
        for number in before:
            signal.signal(number, handle)
        yield stop
    finally:
        restore()
