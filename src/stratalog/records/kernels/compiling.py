"""Tells a listener when kernels are compiled, or cannot be cached, so that a command can say why it is slow.

This is not in `machine.py`, so that a listener can be set before Numba is imported.
"""

from __future__ import annotations

from collections.abc import Callable

OnCompiling = Callable[[bool], object]
"""Called with True when the compilation of a kernel begins, and with False when it ends.

Other kernels may be compiled in between. All calls come from threads that hold Numba's lock for compiling.
"""

_listener: OnCompiling | None = None
_on_uncached: Callable[[str], object] | None = None


def tell_compiling(listener: OnCompiling | None) -> None:
    """From now on, tell this listener, and no other, when kernels are compiled."""
    global _listener
    _listener = listener


def compiling(begins: bool) -> None:
    """Tell the listener, if there is one, that a compilation begins or ends."""
    if _listener is not None:
        _listener(begins)


def tell_uncached(listener: Callable[[str], object] | None) -> None:
    """From now on, tell this listener in words if compiled kernels cannot be kept for other processes."""
    global _on_uncached
    _on_uncached = listener


def uncached(words: str) -> None:
    """Tell the listener of `tell_uncached`, if there is one."""
    if _on_uncached is not None:
        _on_uncached(words)
