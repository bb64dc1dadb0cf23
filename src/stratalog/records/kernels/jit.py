"""`@kernel`: how every hot loop of Stratalog is compiled, once, and where the result is kept.

The stamp of every compiled kernel is a hash of all kernel sources, since kernels inline each other. Where no
folder can be written, as in a container without a home, kernels are compiled without a cache, with one
warning. Why: docs/decisions/0006-stamp-of-kernels.md.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba.core import config
from numba.core.registry import cpu_target

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

INTERPRETED = bool(getattr(config, "DISABLE_JIT", False))
"""NUMBA_DISABLE_JIT=1: kernels run as plain Python, so that coverage and debuggers see inside them."""


def rows_of(fields: list[tuple[str, type[np.generic]]]) -> np.dtype[np.void]:
    """The dtype of a table whose rows a kernel reads and writes as `row.field`.

    It is a record dtype, not a plain structured one: with it the same code also runs as plain Python.
    """
    return np.dtype((np.record, np.dtype(fields, align=True)))


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first use, without the GIL; cached on disk if possible."""
    if INTERPRETED:
        return function
    try:
        compiled = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError as error:  # numba: "cannot cache function ...: no locator available"
        logger.debug("%s", error)
        _say_uncached()
        return cast(Callable[P, R], numba.njit(nogil=True)(function))
    _stamp(compiled)
    return cast(Callable[P, R], compiled)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """A small function that becomes part of each kernel that calls it.

    For code that runs once for every key or value: a call that passes arrays counts references atomically,
    which costs more than copying sixteen bytes (measured: gathering keys took 10.6 ns each, inlined 2.8).
    """
    if INTERPRETED:
        return function
    return cast(Callable[P, R], numba.njit(nogil=True, inline="always")(function))


def compiled_features() -> frozenset[str]:
    """The features of the CPU that Numba compiles for, by LLVM's names (`sse4.2`, `crc`).

    These may be fewer than this machine's: NUMBA_CPU_NAME may ask for less, and LLVM fails on an instruction
    that its target does not have.
    """
    if INTERPRETED:
        return frozenset()
    _triple, _cpu, features = cpu_target.target_context.codegen().magic_tuple()
    return frozenset(name[1:] for name in features.split(",") if name.startswith("+"))


@cache
def _say_uncached() -> None:
    logger.warning(
        "compiled kernels cannot be cached: each process compiles them again, which takes some seconds. Set "
        "NUMBA_CACHE_DIR to a folder that this user can write."
    )


@cache
def _sources_hash() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _stamp(compiled: Any) -> None:  # Any: a Numba dispatcher, whose cache has no public type
    """Make the cached machine code valid only for exactly these sources."""
    store = compiled._cache
    store._source_stamp = _sources_hash()
    store._cache_file._source_stamp = _sources_hash()
