"""Locks that a fork waits for: work that must not be cut short in the forked child.

Some locks cannot be replaced in the child, for example those that Python holds while a module is imported,
and Numba's lock while it compiles. If another thread had one of them at the fork, nobody would ever release
it in the child, and a read there would wait forever. So what a reading thread imports or compiles when it is
needed for the first time is done under `loading`, or under a lock that was given to `hold_at_fork`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Lock = Any  # a threading.RLock, which is a function up to Python 3.12

loading: Lock = threading.RLock()
"""Held by a thread that imports a module, or prepares a kernel, when it is needed for the first time."""


class HeldAtFork:
    """The locks that the forking thread takes before a fork, and releases after it in both processes."""

    def __init__(self, first: Lock) -> None:
        self.locks: list[Lock] = [first]
        self.is_before_logging = False  # whether the locks are taken before that of `logging`
        self._taken: list[Lock] = []  # changed only by the thread that has the first lock

    def take(self) -> None:
        """Wait until no other thread has any of the locks.

        Another thread may have one of them and wait for another. So this method waits only while it has none.
        """
        while True:
            self._take(self.locks[0], blocking=True)
            busy = next((lock for lock in self.locks[1:] if not self._take(lock, blocking=False)), None)
            if busy is None:
                return
            self.give_back()
            with busy:
                pass

    def give_back(self) -> None:
        while self._taken:
            self._taken.pop().release()

    def _take(self, lock: Lock, *, blocking: bool) -> bool:
        is_taken: bool = lock.acquire(blocking=blocking)
        if is_taken:
            self._taken.append(lock)
        return is_taken


_held = HeldAtFork(loading)


def hold_at_fork(lock: Lock) -> None:
    """Let every fork wait until this reentrant lock is free, which takes some seconds at most."""
    _held.locks.append(lock)


@contextmanager
def importing() -> Iterator[None]:
    """Hold `loading` while something large is imported, which may use `logging`.

    Handlers that were registered later are called earlier, and that of `logging` takes a lock. If the forking
    thread had that lock while it waits here, this import could not go on. So ours is registered after it.
    """
    if not _held.is_before_logging:
        import logging  # noqa: F401 - not with this module: it takes long, and most programs compile nothing

        _register()
        _held.is_before_logging = True
    with loading:
        yield


def _register() -> None:
    """Take the locks at every fork. Calling it again has an effect only on the order."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=_held.take, after_in_parent=_held.give_back, after_in_child=_held.give_back
        )


_register()
