"""Guards a log: one thread at a time may change it, in one process, until it is closed or has failed."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from stratalog.errors import DiskError, LogClosedError, StratalogError, UsageError, WrongProcessError
from stratalog.files.processes import Opener

if TYPE_CHECKING:
    from stratalog.log.folder import LogFolder
    from stratalog.log.log import Log

AnyLog = TypeVar("AnyLog", bound="Log")


class LogGuard:
    """The two locks of a log, and the reason why it must not be used any more.

    A flush or a truncation takes `flush_lock` before `lock`: no byte is cut off while a flush covers
    it, and two flushes never rely on each other's syncs. `lock` is held for every change of memory;
    appends need only this one.

    A log that has failed stays failed: memory and disk may differ, so nothing more is written. `refusal` says
    why a log can be read but not changed: it was moved, deleted, or inherited by a child process.

    A thread that has a lock already may not take it again: it is a signal handler that has interrupted a
    change, which is half done. Only the code that took the lock may, with a `Holder`. What it calls uses the
    locks directly.
    """

    __slots__ = (
        "_folder",
        "_opener",
        "failure",
        "flush_lock",
        "is_closed",
        "lock",
        "refusal",
    )

    def __init__(self, folder: LogFolder) -> None:
        self.flush_lock: Any = threading.RLock()  # Any: its `_is_owned` is missing in its type
        self.lock: Any = threading.RLock()
        self.failure: DiskError | None = None
        self.is_closed = False
        self.refusal: Callable[[], StratalogError] | None = None
        self._folder = folder
        self._opener = Opener()

    @property
    def is_changeable(self) -> bool:
        """Whether the log is open, has not failed and belongs to this process."""
        return self.failure is None and not self.is_closed and self.refusal is None

    def start_over_in_child(self) -> None:
        """After a fork: this process may only read. It gets new locks: the old ones may never be released."""
        self.refusal = partial(WrongProcessError, self._folder.path, self._opener.pid, os.getpid())
        self.flush_lock, self.lock = threading.RLock(), threading.RLock()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock of a log that may be changed. A DiskError inside the block fails the log."""
        self.check_outside()
        with Holder(self).changing():
            yield

    @contextmanager
    def flushing(self) -> Iterator[Holder]:
        """Hold the flush lock; inside, only this `Holder` lets the log be changed by this thread."""
        self.check_outside()
        with Holder(self).flushing() as holder:
            yield holder

    @contextmanager
    def holding(self) -> Iterator[Holder]:
        """Hold both locks of a log that may be changed; inside, only this `Holder` lets it be changed."""
        self.check_outside()
        with Holder(self).holding() as holder:
            yield holder

    def check_outside(self) -> None:
        """UsageError if this thread is in the middle of a change or a flush, which a handler interrupts."""
        refuse_if_inside(self._folder.path, self.lock, self.flush_lock)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """A DiskError inside the block fails the log."""
        try:
            yield
        except DiskError as error:
            if self.failure is None:  # the first error is the reason; later ones follow from it
                self.failure = error
            raise

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Any exception but a DiskError, even Ctrl-C, fails the log: its files may differ from memory."""
        try:
            yield
        except DiskError:
            raise
        except BaseException as error:
            self.fail_over(error)
            raise

    def fail_over(self, error: BaseException) -> None:
        """Fail the log because of an error that is not a DiskError."""
        reason = f"a change to the log was interrupted: {type(error).__name__}"
        self.failure = DiskError(self._folder.path, reason)

    def check_usable(self) -> None:
        """Raise the error of a log that can be neither read nor changed."""
        if self.failure is not None:
            raise DiskError(
                self._folder.path, f"the log has failed before: {self.failure}", self.failure.errno
            )
        if self.is_closed:
            raise LogClosedError(self._folder.path) if self.refusal is None else self.refusal()

    def check_changeable(self) -> None:
        """As `check_usable`; a log with a `refusal` is refused too."""
        self.check_usable()
        if self.refusal is not None:
            raise self.refusal()


class Holder:
    """Takes locks that its thread may have already, as a `LogGuard` does. A signal handler has no holder."""

    __slots__ = ("_guard",)

    def __init__(self, guard: LogGuard) -> None:
        self._guard = guard

    @contextmanager
    def changing(self) -> Iterator[None]:
        with self._guard.lock:
            self._guard.check_changeable()
            with self._guard.failing():
                yield

    @contextmanager
    def flushing(self) -> Iterator[Self]:
        with self._guard.flush_lock:
            yield self

    @contextmanager
    def holding(self) -> Iterator[Self]:
        with self._guard.flush_lock, self._guard.lock:
            self._guard.check_changeable()
            yield self

    def check_outside(self) -> None:
        """Refuses nothing."""


@contextmanager
def held(log: AnyLog) -> Iterator[AnyLog]:
    """Hold a log; yields another object for the same log, with which alone it can be changed inside.

    The caller and a signal handler are the same thread, so only the object can tell them apart.
    """
    with log._entry.holding() as holder:
        mine = copy.copy(log)
        mine._entry = holder
        yield mine


def refuse_if_inside(path: str, *locks: Any) -> None:
    """UsageError if this thread has one of these locks of a log or of a checkpoint.

    Such a lock could be taken once more, in the middle of a change. Then two records got the same offset.
    """
    if any(lock._is_owned() for lock in locks):
        raise UsageError(
            f"{path}: this thread is in the middle of a call that changes, flushes or closes a log, and a "
            "signal handler (or other code that interrupts it) must not use a log meanwhile. Let a handler "
            "only ask the program to stop: see stratalog.graceful_stop."
        )
