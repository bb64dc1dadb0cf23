"""Resets in a forked child what belongs to the process that opened it.

A child that was forked has copies of everything: of logs, whose other writer goes on in the parent; of locks
of threads that are not there to release them; of the descriptors by which a directory is locked. So whatever
has such things registers here, and is told of it in the child, before anything else runs there.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

from stratalog.errors import WrongProcessError


class Inheritable(Protocol):
    """Something that a forked child has a copy of."""

    def start_over_in_child(self) -> None: ...


class Opener:
    """The process that opened something, the only one that may change it."""

    __slots__ = ("pid",)

    def __init__(self) -> None:
        self.pid = _current.pid

    @property
    def is_here(self) -> bool:
        """Whether this is that process, and not a child that was forked from it."""
        return self.pid == _current.pid

    def check(self, path: str) -> None:
        """WrongProcessError in a child of the process that opened what is at `path`."""
        if self.pid != _current.pid:
            raise WrongProcessError(path, self.pid, _current.pid)


class _Current:
    """The process that this is: asking the system takes as long as an append's other checks together."""

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
    """Call `start_over_in_child` of this object in every child that is forked while it lives."""
    _inheritable.add(inheritable)


def forget(inheritable: Inheritable) -> None:
    """Do not call it any more."""
    _inheritable.discard(inheritable)
