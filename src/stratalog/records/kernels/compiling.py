"""Who wants to know when kernels are compiled, or cannot be kept: a command that explains why it takes long.

Apart from `machine.py`, so that a listener can be named before Numba is imported.
"""

from __future__ import annotations

from collections.abc import Callable

OnCompiling = Callable[[bool], object]
"""Called with True when the compilation of a kernel begins, and with False when it ends.

One kernel may compile others in between. All calls come from threads that hold Numba's lock for compiling.
"""

_listener: OnCompiling | None = None
_on_uncached: Callable[[str], object] | None = None


def tell_compiling(listener: OnCompiling | None) -> None:
    """From now on, tell this listener and no other."""
    global _listener
    _listener = listener


def compiling(begins: bool) -> None:
    """Tell the listener, if there is one."""
    if _listener is not None:
        _listener(begins)


def tell_uncached(listener: Callable[[str], object] | None) -> None:
    """From now on, tell this listener in words if compiled kernels cannot be kept for other processes."""
    global _on_uncached
    _on_uncached = listener


def uncached(words: str) -> None:
    """Tell that listener, if there is one."""
    if _on_uncached is not None:
        _on_uncached(words)
