"""Kernels as machine code: compiles them once with Numba, and caches the result.

This module is imported only when Numba is to compile or load a kernel, because importing Numba takes long.
The stamp of every compiled kernel is a hash of all kernel sources, because kernels inline each other. If no
folder can be written, as in a container without a home directory or on a full disk, kernels are not cached,
and one warning says so. A kernel whose cache file is damaged is compiled again. Why:
docs/decisions/0006-stamp-of-kernels.md.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import pickle
import uuid
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
from numba.core import config, event
from numba.core.caching import IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime.nrt import rtsys

from stratalog.forks import hold_at_fork
from stratalog.null_handler import add_null_handler
from stratalog.records.kernels.compiling import compiling, uncached
from stratalog.records.kernels.images import NEEDS_NUMBA, from_file, to_file
from stratalog.records.kernels.jit import Forms, Kernel, maker_of
from stratalog.records.kernels.linking import UnlinkableError, image_of, words_of
from stratalog.records.kernels.loaded import (
    PACKAGE,
    are_sources_unchanged,
    cache_folders,
    current_stamp,
    file_name,
    sources_hash,
)

add_null_handler()
logger = logging.getLogger(__name__)

_CHECKSUM_SIZE = 4
_NEW_OBJECTS = 50_000  # after so many, the garbage collector looks at objects while kernels are compiled

_Copy = Callable[[FunctionType], FunctionType]


class MachineForms(Forms):
    """Kernels as Numba's dispatchers."""

    def kernel_form(self, kernel: Kernel[..., Any], copy: _Copy) -> Any:
        function = copy(kernel.py_func)
        if kernel.is_inlined:
            return numba.njit(nogil=True, inline="always")(function)
        return _compiled(function)

    def helper_form(self, function: FunctionType, copy: _Copy) -> Any:
        made = None if _IS_OFF else maker_of(function)()
        return numba.njit(nogil=True)(copy(function)) if made is None else made


class _Compilations(event.Listener):
    """Tells the listener when Numba compiles a kernel, but not when it loads one from the cache.

    Numba makes many objects that live until a kernel is compiled. If the garbage collector looks at them more
    rarely, compiling takes an eighth less time, and 15 MB more memory.
    """

    def __init__(self) -> None:
        self._depth = 0  # kernels that are being compiled: one, and those that it calls
        self._before = gc.get_threshold()

    def on_start(self, _event: Any) -> None:  # Any: Numba's own class
        if self._depth == 0:
            self._before = gc.get_threshold()
            if 0 < self._before[0] < _NEW_OBJECTS:  # 0: the collector is off
                gc.set_threshold(_NEW_OBJECTS, *self._before[1:])
        self._depth += 1
        compiling(True)

    def on_end(self, _event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            gc.set_threshold(*self._before)
        compiling(False)


event.register("numba:compile", _Compilations())  # type: ignore[no-untyped-call]
hold_at_fork(global_compiler_lock._lock)  # a thread that compiles does not exist in a forked child
MACHINE = MachineForms()
_IS_OFF = bool(getattr(config, "DISABLE_JIT", False))  # set in Numba's own settings file


def counts_of(kernel: Kernel[..., Any]) -> tuple[int, int]:
    """How often this process has compiled a kernel, and loaded it; each set of argument types is counted."""
    if not MACHINE.has(kernel) or _IS_OFF:
        return 0, 0
    stats = MACHINE.of(kernel).stats
    return sum(stats.cache_misses.values()), sum(stats.cache_hits.values())


def compiled_features() -> frozenset[str]:
    """The features of the CPU that Numba compiles for, by LLVM's names (`crc32`, `crc`).

    These may be fewer than the CPU of this machine has, because of NUMBA_CPU_NAME. LLVM fails on an
    instruction that its target does not have.
    """
    _triple, _cpu, features = cpu_target.target_context.codegen().magic_tuple()
    return frozenset(name[1:] for name in features.split(",") if name.startswith("+"))


def _compiled(function: FunctionType) -> Any:  # Any: a Numba dispatcher
    if _IS_OFF:
        return function
    try:
        compiled: Any = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError as error:  # numba: "cannot cache function ...: no locator available"
        logger.debug("%s", error)
        _say_uncached()
        return numba.njit(nogil=True)(function)
    # Make the cached machine code valid only for exactly these sources.
    store = compiled._cache
    store._source_stamp = _sources_hash()
    files = _CheckedFiles(store._cache_path, store._impl.filename_base, _sources_hash())  # type: ignore[no-untyped-call]
    store._cache_file = files
    store.load_overload = partial(_load_cached, store)
    store.save_overload = partial(_save_cached, store)
    return compiled


# What unpickling raises for bytes that are not what was pickled.
_UNPICKLING_FAILED = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ImportError,
    OverflowError,
)


class _CheckedFiles(IndexDataCacheFile):
    """The cache files of a kernel, with a checksum after the machine code.

    Numba does not sync them, so a power cut may leave zeros, or a part of a file. Then the kernel is compiled
    again; without the checksum, damaged machine code would be run.
    """

    def _load_index(self) -> Any:
        try:
            return super()._load_index()  # type: ignore[no-untyped-call]
        except _UNPICKLING_FAILED:
            return {}

    def _load_data(self, name: str) -> Any:
        data = Path(self._data_path(name)).read_bytes()  # type: ignore[no-untyped-call]
        pickled, checksum = data[:-_CHECKSUM_SIZE], data[-_CHECKSUM_SIZE:]
        if self._checksum(pickled) != checksum:
            raise OSError(f"{name} is damaged")  # Numba then compiles
        found = pickle.loads(pickled)
        self._keep_image(found)
        return found

    def _save_data(self, name: str, data: Any) -> None:
        pickled = self._dump(data)  # type: ignore[no-untyped-call]
        with self._open_for_write(self._data_path(name)) as file:  # type: ignore[no-untyped-call]
            file.write(pickled + self._checksum(pickled))
        self._keep_image(data)

    def _checksum(self, data: bytes) -> bytes:
        # With the stamp, because Numba writes the index before the machine code: if the process is killed in
        # between, the new index refers to machine code of the old sources.
        seed = zlib.crc32(self._source_stamp.encode())
        return zlib.crc32(data, seed).to_bytes(_CHECKSUM_SIZE, "little")

    def _keep_image(self, compiled: Any) -> None:
        """Write what later processes can load without Numba, if it is not there and there is room."""
        (_, _, (object_code, _)), description, _, signature, *_ = compiled
        stamp = current_stamp()
        if stamp is None or not description.modname.startswith(f"{PACKAGE}."):
            return
        try:
            name = f"{description.modname.rpartition('.')[2]}.{description.qualname}"
            path = Path(self._cache_path, file_name(name, words_of(signature.args)))
            with suppress(OSError):
                if from_file(path.read_bytes(), stamp) is not None:
                    return
        except UnlinkableError as error:
            logger.debug("%s has arguments of Numba's own: %s", description.qualname, error)
            return
        try:
            image = image_of(object_code, description.llvm_func_name, signature)
        except UnlinkableError as error:
            logger.debug("%s needs Numba: %s", description.qualname, error)
            image = NEEDS_NUMBA
        with suppress(OSError), self._open_for_write(str(path)) as file:
            file.write(to_file(image, stamp))


def _load_cached(store: Any, signature: Any, target: Any) -> Any:  # Any: Numba's own classes
    """Load machine code that is in the cache; None if it is not there.

    Numba's own method first imports all its implementations of Python and NumPy, which takes 0.13 s. Only
    compiling needs them, and the compiler asks for them itself.
    """
    rtsys.initialize(target)  # machine code calls Numba's memory manager
    with store._guard_against_spurious_io_errors():
        return store._load_overload(signature, target)
    return None  # an unreadable file


def _save_cached(store: Any, signature: Any, compiled: Any) -> None:  # Any: Numba's own classes
    """Write machine code to the cache, if there is room, and if its sources are those of its stamp."""
    if not are_sources_unchanged():
        return
    try:
        store._save_overload(signature, compiled)
    except OSError as error:  # a full disk
        logger.debug("%s", error)
        _say_uncached()


@cache
def _say_uncached() -> None:
    tried = " or ".join(map(str, cache_folders()))
    words = (
        f"compiled kernels cannot be cached in {tried}: each process compiles them again, which takes some "
        "seconds. Set NUMBA_CACHE_DIR to a folder that this user can write."
    )
    logger.warning(words)
    uncached(words)


@cache
def _sources_hash() -> str:
    # If the sources have changed since the import, no other process may use what is compiled here.
    sources = sources_hash() or uuid.uuid4().hex
    return hashlib.sha256(f"{numba.__version__} {sources}".encode()).hexdigest()
