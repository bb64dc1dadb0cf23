"""`@kernel`: a hot loop that runs as plain Python for little work, and as machine code for more.

Importing Numba and loading kernels takes longer than the work of most commands, and compiling a kernel for
the first time takes seconds. So a kernel can declare how many bytes a call processes. Small calls of such a
kernel (`PLAIN_BYTES`) first run as plain Python, for 5 ms in all. Any other call runs as the machine code of
an earlier process, without Numba, if there is any (`loaded.py`, up to `LOADED_CALLS`). If there is none,
small calls go on as plain Python, until they have taken as long as loading would take (`PLAIN_SECONDS`); all
other calls import Numba, which loads or compiles the kernel (`machine.py`). If the kernel would have to be
compiled, plain Python gets more time, and larger calls use it too (`MORE_SECONDS`). Why:
docs/decisions/0034-kernels-begin-as-plain-python.md, docs/decisions/0049-machine-code-without-numba.md.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import update_wrapper
from types import CodeType, FunctionType
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

import numpy as np

from stratalog.forks import hold_at_fork, importing
from stratalog.records.kernels.loaded import (
    LOADED_CALLS,
    MISSING,
    PACKAGE,
    UNKNOWN,
    LoadedKernel,
    may_stay_plain,
)

P = ParamSpec("P")
R = TypeVar("R")

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
"""NUMBA_DISABLE_JIT=1: kernels are plain functions, so that coverage and debuggers see inside them."""
PLAIN_BYTES = 64 << 10
"""The size of the largest call that counts as small; plain Python takes some tens of milliseconds for it."""
PLAIN_SECONDS = 0.3
"""How long all such calls of a process may take: about as long as importing Numba and loading kernels."""
PLAIN_SECONDS_BEFORE_LOADING = PLAIN_SECONDS - 0.005
"""When no more than this is left of `PLAIN_SECONDS`, small calls also look for machine code of an earlier
process, which takes some ms.
"""

MORE_SECONDS = 0.5
"""How much longer calls may take as plain Python if a kernel has not been compiled on this machine, because
compiling takes seconds.

A process that has begun to use Numba does not get this time, because it has much to do. Of the others only
some get it (`may_stay_plain`), so that a user who runs the same command again and again gets machine code.
"""

_KERNELS: list[Kernel[..., Any]] = []
_MAKERS: dict[Callable[..., object], Callable[[], Any]] = {}  # Any: intrinsics of Numba


class PlainTime:
    """What is left of the time for plain Python, and of the calls without Numba."""

    def __init__(self) -> None:
        self.left_s = PLAIN_SECONDS
        self.more_s = MORE_SECONDS
        self.loaded_calls = LOADED_CALLS  # those that may still go through images


_plain_time = PlainTime()


def rows_of(fields: list[tuple[str, type[np.generic]]]) -> np.dtype[np.void]:
    """The dtype of a table whose rows a kernel reads and writes as `row.field`.

    It is a record dtype, not a plain structured one: with it the same code also runs as plain Python.
    """
    return np.dtype((np.record, np.dtype(fields, align=True)))


class Kernel(Generic[P, R]):
    """A kernel that decides at each call how it runs, until its machine code is loaded and replaces it."""

    __name__: str

    def __init__(
        self,
        function: FunctionType,
        *,
        size: Callable[P, int] | None,
        plain_us: Callable[P, int] | None,
        twin: FunctionType | None,
        is_inlined: bool,
    ) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self.twin = function if twin is None else twin
        self.is_inlined = is_inlined
        self._size = size
        self._plain_us = plain_us or size
        self._is_entered = False
        self._code: Callable[P, R] | None = None
        module = function.__module__
        is_ours = module.startswith(f"{PACKAGE}.") and not is_inlined
        self._loaded = LoadedKernel(f"{module.rpartition('.')[2]}.{self.__name__}") if is_ours else None
        _KERNELS.append(self)

    @property
    def has_size(self) -> bool:
        """Whether small calls may run as plain Python."""
        return self._size is not None

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        """Run as plain Python if that is quick, otherwise as machine code: without Numba if possible."""
        if not self._is_entered:
            if _plain_time.left_s > PLAIN_SECONDS_BEFORE_LOADING and self.is_small(*arguments, **named):
                return self.run_plain(*arguments, **named)
            result: object = UNKNOWN
            if _plain_time.loaded_calls > 0 and not named:
                result = self.run_loaded(*arguments)
                if result is not UNKNOWN and result is not MISSING:
                    _plain_time.loaded_calls -= 1
                    return cast(R, result)
            if (_plain_time.left_s > 0 and self.is_small(*arguments, **named)) or (
                result is MISSING and self.is_quicker_than_compiling(*arguments, **named)
            ):
                return self.run_plain(*arguments, **named)
            with importing():  # the first call compiles
                self._enter()
                return self.machine_code()(*arguments, **named)
        return self.machine_code()(*arguments, **named)

    def is_small(self, *arguments: P.args, **named: P.kwargs) -> bool:
        """Whether a call with these arguments is quick as plain Python."""
        return self._size is not None and self._size(*arguments, **named) <= PLAIN_BYTES

    def is_quicker_than_compiling(self, *arguments: P.args, **named: P.kwargs) -> bool:
        """Whether there is enough time left to run a call with these arguments as plain Python."""
        if self._plain_us is None:
            return False
        left_us = 1_000_000 * (_plain_time.left_s + _plain_time.more_s)
        return left_us > 0 and self._plain_us(*arguments, **named) <= left_us and may_stay_plain()

    def run_plain(self, *arguments: P.args, **named: P.kwargs) -> R:
        """The result of plain Python, in the types that compiled code returns."""
        began = time.thread_time()
        with np.errstate(over="ignore"):  # wrap-around is intended
            result = _PLAIN.of(self)(*arguments, **named)
        _plain_time.left_s -= time.thread_time() - began
        return cast(R, _as_compiled(result))

    def run_loaded(self, *arguments: object) -> object:
        """The result of machine code without Numba; UNKNOWN or MISSING if there is none."""
        return UNKNOWN if self._loaded is None else self._loaded(arguments)

    def machine_code(self) -> Callable[P, R]:
        """Numba's dispatcher, which compiles or loads at its first call."""
        if self._code is None:
            with importing():
                from stratalog.records.kernels.machine import MACHINE

                self._code = cast(Callable[P, R], MACHINE.of(self))
        return self._code

    def _enter(self) -> None:
        """From now on, modules that have imported this kernel by its name call the machine code directly."""
        code = self.machine_code()
        _plain_time.more_s = 0
        _ENTERED[id(code)] = self
        self._is_entered = True
        name = self.__name__
        importers = [vars(module) for path, module in [*sys.modules.items()] if path.startswith("stratalog.")]
        for names in (self.py_func.__globals__, *importers):
            if names.get(name) is self:
                names[name] = code


@overload
def kernel(function: Callable[P, R]) -> Callable[P, R]: ...


@overload
def kernel(
    *,
    size: Callable[..., int] | None = None,
    plain_us: Callable[..., int] | None = None,
    twin: Callable[..., Any] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def kernel(
    function: Callable[P, R] | None = None,
    *,
    size: Callable[..., int] | None = None,
    plain_us: Callable[..., int] | None = None,
    twin: Callable[..., Any] | None = None,  # Any: what the kernel returns
) -> Any:  # Any: a kernel, or what makes one
    """Compile at the first call that needs machine code and finds none, and cache it on disk if possible.

    The machine code runs without the GIL.

    `size` returns about how many bytes a call with these arguments processes; with it, small calls run as
    plain Python. `plain_us` returns about how many microseconds that takes; without it, one for each byte.
    `twin` is a function for plain Python, where it is much faster than the kernel's own.
    """

    def make(function: Callable[P, R]) -> Callable[P, R]:
        if INTERPRETED:
            return function
        return Kernel(
            cast(FunctionType, function),
            size=size,
            plain_us=plain_us,
            twin=cast("FunctionType | None", twin),
            is_inlined=False,
        )

    return make if function is None else make(function)


@overload
def inlined(function: Callable[P, R]) -> Callable[P, R]: ...


@overload
def inlined(*, twin: Callable[..., Any]) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def inlined(
    function: Callable[P, R] | None = None,
    *,
    twin: Callable[..., Any] | None = None,  # Any: what the function returns
) -> Any:  # Any: a kernel, or what makes one
    """A small function that becomes part of each kernel that calls it.

    For code that runs once for every key or value. A call that passes arrays counts references atomically,
    which costs more than copying sixteen bytes: gathering a key took 10.6 ns, and inlined 2.8 ns. `twin` is
    the same as for `kernel`.
    """

    def make(function: Callable[P, R]) -> Callable[P, R]:
        if INTERPRETED:
            return function
        made: Kernel[P, R] = Kernel(
            cast(FunctionType, function),
            size=None,
            plain_us=None,
            twin=cast("FunctionType | None", twin),
            is_inlined=True,
        )
        return made

    return make if function is None else make(function)


def compiled_by(make: Callable[[], Any]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """For a function that compiled kernels need in another form: `make` returns an intrinsic of Numba.

    If `make` returns None, the function itself is compiled.
    """

    def remember(function: Callable[P, R]) -> Callable[P, R]:
        _MAKERS[function] = make
        return function

    return remember


def kernels() -> list[Kernel[..., Any]]:
    """All kernels that have been imported; none under NUMBA_DISABLE_JIT."""
    return [*_KERNELS]


def compile_always() -> None:
    """From now on, all calls of this process run through Numba."""
    _plain_time.left_s = -math.inf
    _plain_time.loaded_calls = 0


class Forms(ABC):
    """Kernels in one form, plain or compiled: a kernel in this form calls others in the same form.

    Each function is copied, with its own global names. In the copy, the name of a kernel refers to the form
    of that kernel.
    """

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}  # Any: a function, or what Numba makes of it
        self._names: dict[int, dict[str, Any]] = {}
        self._lock = threading.RLock()
        hold_at_fork(self._lock)

    def of(self, kernel: Kernel[..., Any]) -> Any:
        """The form of this kernel."""
        with self._lock:
            return self._form_of(kernel)

    def has(self, kernel: Kernel[..., Any]) -> bool:
        """Whether this kernel, or one that calls it, has been requested."""
        return id(kernel) in self._made

    @abstractmethod
    def kernel_form(self, kernel: Kernel[..., Any], copy: Callable[[FunctionType], FunctionType]) -> Any:
        """The form of a kernel; `copy` makes a copy of its function with global names of its own."""

    @abstractmethod
    def helper_form(self, function: FunctionType, copy: Callable[[FunctionType], FunctionType]) -> Any:
        """The form of a function that was declared with `compiled_by`."""

    def _form_of(self, value: Any) -> Any:
        value = _ENTERED.get(id(value), value)
        is_helper = isinstance(value, FunctionType) and value in _MAKERS
        if not is_helper and not isinstance(value, Kernel):
            return value
        if id(value) not in self._made:
            copied: list[FunctionType] = []

            def copy(function: FunctionType) -> FunctionType:
                copied.append(function)
                return self._copy(function)

            # The form is stored before the functions that it calls are copied: one of them may be the kernel
            # itself.
            form = self.helper_form(value, copy) if is_helper else self.kernel_form(value, copy)
            self._made[id(value)] = form
            for function in copied:
                self._fill(function)
        return self._made[id(value)]

    def _copy(self, function: FunctionType) -> FunctionType:
        home = function.__globals__
        names = self._names.setdefault(id(home), {"__name__": home["__name__"]})
        copied = FunctionType(
            function.__code__, names, function.__name__, function.__defaults__, function.__closure__
        )
        copied.__qualname__, copied.__doc__ = function.__qualname__, function.__doc__
        return copied

    def _fill(self, function: FunctionType) -> None:
        home = function.__globals__
        names = self._names[id(home)]
        for name in _names_in(function.__code__):
            if name in home and name not in names:
                names[name] = self._form_of(home[name])


class PlainForms(Forms):
    """Kernels as plain Python."""

    def kernel_form(self, kernel: Kernel[..., Any], copy: Callable[[FunctionType], FunctionType]) -> Any:
        return copy(kernel.twin)

    def helper_form(self, function: FunctionType, copy: Callable[[FunctionType], FunctionType]) -> Any:
        return copy(function)


_PLAIN = PlainForms()
_ENTERED: dict[int, Kernel[..., Any]] = {}  # kernels by the id of the dispatcher that has replaced them


def maker_of(function: FunctionType) -> Callable[[], Any]:
    """What `compiled_by` was given for this function."""
    return _MAKERS[function]


def _names_in(code: CodeType) -> Iterator[str]:
    """The global names that a function may use; attribute names are among them, which does no harm."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _as_compiled(result: Any) -> Any:
    """NumPy's numbers converted to Python's, because compiled kernels return those."""
    if isinstance(result, tuple):
        return tuple(map(_as_compiled, result))
    return result.item() if isinstance(result, np.generic) else result
