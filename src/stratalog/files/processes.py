"""Resets in a forked child what belongs to the process that opened it.

A forked child has copies of everything: of logs, to which the parent continues to write; of locks, which may
be held by threads that do not exist in the child; and of the descriptors that hold a directory's lock. An
object with such state registers here, and its `start_over_in_child` is called in the child before anything
else runs there.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

from stratalog.errors import WrongProcessError


class Inheritable(Protocol):
    """An object of which a forked child has a copy."""

    def start_over_in_child(self) -> None: ...


class Opener:
    """The process that opened something: no other process may change it."""

    __slots__ = ("pid",)

    def __init__(self) -> None:
        self.pid = _current.pid

    @property
    def is_here(self) -> bool:
        """Whether this is that process, and not a child forked from it."""
        return self.pid == _current.pid

    def check(self, path: str) -> None:
        """WrongProcessError in a child of the process that opened `path`."""
        if self.pid != _current.pid:
            raise WrongProcessError(path, self.pid, _current.pid)


class _Current:
    """The id of this process, cached: asking the system takes as long as all other checks of an append."""

    def __init__(self) -> None:
        self.pid = os.getpid()

    def start_over_in_child(self) -> None:
        self.pid = os.getpid()
        for each in list(_inheritable):
            each.start_over_in_child()


_current = _Current()
_inheritable: WeakSet[Inheritable] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_current.start_over_in_child)


def tell_in_child(inheritable: Inheritable) -> None:
    """Call `start_over_in_child` of this object in every child that is forked while the object exists."""
    _inheritable.add(inheritable)


def forget(inheritable: Inheritable) -> None:
    """Undo `tell_in_child`."""
    _inheritable.discard(inheritable)
