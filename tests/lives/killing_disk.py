"""A disk of this machine that kills its process at one of its changes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from stratalog.files.disk import Disk, byte_view
from stratalog.files.entries import Path as AnyPath

if TYPE_CHECKING:
    from stratalog.files.disk import Data


class Trap(NamedTuple):
    """Where a writer kills itself: at the n-th change of a file.

    Only changes count of files whose names contain `pattern`, or by the thread whose current step has that
    name ("cutting").

    `when`: before the change, after it, or after half of a write.
    """

    pattern: str
    nth: int
    when: str


class KillingDisk(Disk):
    """The disk of this machine; the process is killed at one of its changes."""

    def __init__(self, trap: Trap | None) -> None:
        super().__init__()
        self._trap = trap
        self._left = -1 if trap is None else trap.nth
        self._lock = threading.Lock()
        self._doing: dict[int, str] = {}

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Names the current step of this thread, for a trap."""
        self._doing[threading.get_ident()] = what
        try:
            yield
        finally:
            del self._doing[threading.get_ident()]

    def _is_meant(self, paths: Sequence[AnyPath]) -> bool:
        if self._trap is None:
            return False
        is_named_so = any(self._trap.pattern in os.fspath(path) for path in paths)
        return is_named_so or self._doing.get(threading.get_ident()) == self._trap.pattern

    def _change(
        self, change: Callable[[], Any], *paths: AnyPath, half: Callable[[], Any] | None = None
    ) -> Any:
        if self._trap is None or not self._is_meant(paths):
            return change()
        with self._lock:
            self._left -= 1
            is_now = self._left == 0
        if not is_now:
            return change()
        if self._trap.when == "after":
            change()
        elif self._trap.when == "half" and half is not None:
            half()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("a process goes on after SIGKILL")

    def append(self, path: AnyPath, data: Data) -> int:
        view = byte_view(data)
        halved = bytes(view[: view.nbytes // 2])
        found: int = self._change(
            lambda: super(KillingDisk, self).append(path, data),
            path,
            half=lambda: super(KillingDisk, self).append(path, halved),
        )
        return found

    def write_at(self, path: AnyPath, data: Data, position: int) -> None:
        view = byte_view(data)
        self._change(
            lambda: super(KillingDisk, self).write_at(path, data, position),
            path,
            half=lambda: super(KillingDisk, self).write_at(path, view[: len(view) // 2], position),
        )

    def create(self, path: AnyPath, size: int = 0) -> None:
        self._change(lambda: super(KillingDisk, self).create(path, size), path)

    def truncate(self, path: AnyPath, size: int) -> None:
        self._change(lambda: super(KillingDisk, self).truncate(path, size), path)

    def rename(self, source: AnyPath, target: AnyPath) -> None:
        self._change(lambda: super(KillingDisk, self).rename(source, target), source, target)

    def delete(self, path: AnyPath) -> bool:
        found: bool = self._change(lambda: super(KillingDisk, self).delete(path), path)
        return found

    def make_directory(self, path: AnyPath) -> bool:
        found: bool = self._change(lambda: super(KillingDisk, self).make_directory(path), path)
        return found

    def remove_directory(self, path: AnyPath) -> bool:
        found: bool = self._change(lambda: super(KillingDisk, self).remove_directory(path), path)
        return found
