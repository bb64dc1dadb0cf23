"""Runs every call of a kernel in all its forms, and compares what they return and write.

The forms are plain Python for small calls, Numba's machine code, and the same from an image, if there is one.

In a process of its own, before any kernel runs: a kernel whose machine code is in use is not seen any more.
For whole files of tests: `pytest -p tests.both_forms tests/log`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from stratalog.records.kernels.jit import Kernel
from stratalog.records.kernels.loaded import MISSING, UNKNOWN

calls: Counter[str] = Counter()
"""How often each kernel was compared."""
calls_of_images: Counter[str] = Counter()
"""How often an image was among what was compared."""


def compare_always() -> None:
    """Compare from here on."""
    Kernel.__call__ = _call_both  # type: ignore[method-assign, assignment]


def pytest_configure() -> None:
    """Compare during a whole run of pytest."""
    compare_always()


def pytest_unconfigure() -> None:
    """Say what was compared."""
    print("compared:", dict(calls))


def _call_both(kernel: Kernel[..., Any], *arguments: Any) -> Any:
    name = f"{kernel.__module__.rpartition('.')[2]}.{kernel.__name__}"
    is_small = kernel.is_small(*arguments)
    before, copies = _copied(arguments), _copied(arguments)
    compiled = kernel.machine_code()(*arguments)
    after = _copied(arguments)
    _restore(arguments, before)
    loaded = kernel.run_loaded(*arguments)
    if loaded is UNKNOWN or loaded is MISSING:
        _restore(arguments, after)
    else:
        calls_of_images[name] += 1
        assert _is_same(loaded, compiled), (name, loaded, compiled)
        assert _is_same(arguments, after), name
    if is_small:
        calls[name] += 1
        plain = kernel.run_plain(*copies)
        assert _is_same(plain, compiled), (name, plain, compiled)
        assert _is_same(copies, arguments), name
    return compiled


def _copied(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.void):
        return value.copy()
    if isinstance(value, tuple):
        parts = [_copied(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def _restore(arguments: Any, before: Any) -> None:
    """In place: some arguments are views of the same memory. What is the same may be memory of a file."""
    for each, old in zip(arguments, before, strict=True):
        if isinstance(each, tuple):
            _restore(each, old)
        elif isinstance(each, np.ndarray | np.void) and not _is_same(each, old):
            target: Any = each
            target[...] = old


def _is_same(left: Any, right: Any) -> bool:
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(_is_same, left, right))
    if isinstance(left, np.ndarray | np.void):
        return bool(np.all(left == right))
    return bool(left == right and type(left) is type(right))
