"""What Numba has compiled becomes an image, or it is said why not."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

from stratalog.records.kernels import linking
from stratalog.records.kernels.images import Image, into_memory
from stratalog.records.kernels.jit import INTERPRETED
from stratalog.records.kernels.linking import UnlinkableError, image_of, words_of
from stratalog.records.kernels.loaded import array_words, parts_of, tuple_words

pytestmark = [
    pytest.mark.skipif(INTERPRETED, reason="NUMBA_DISABLE_JIT: nothing is compiled"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="object files of x86-64"),
]


class Pair(NamedTuple):
    left: int
    right: int


def linked(function: Callable[..., Any], *arguments: Any) -> Image:
    """The image of a function, compiled for such arguments."""
    compiled = numba.njit(nogil=True)(function)
    compiled(*arguments)
    (found,) = compiled.overloads.values()
    object_code = found.library._get_compiled_object()
    return image_of(object_code, found.fndesc.llvm_func_name, found.signature)


def test_numbers_go_in_and_out() -> None:
    image = linked(lambda number, times: number * times, 3, 4)
    out, error = ctypes.c_int64(), ctypes.c_void_p()
    kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

    status = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(into_memory(image))(
        ctypes.addressof(out), ctypes.addressof(error), -6, 7
    )

    assert (image.parameters, image.result, image.is_tuple) == ("qq", "q", False)
    assert (status, out.value) == (0, -42)


def test_the_parts_of_arguments_and_results() -> None:
    array = np.zeros((2, 3), np.int64)

    def each(rows: Any, pair: Any, flag: bool) -> Any:
        return len(rows), flag, pair.left, (pair.left, pair.right)

    image = linked(each, array, Pair(1, 2), True)

    assert image.parameters == "PPqqP" + "qq" + "qq" + "qq" + "?"
    assert (image.result, image.is_tuple) == ("q?q(qq)", True)


def test_nothing_may_be_returned() -> None:
    def fill(rows: Any) -> None:
        rows[0] = 1

    assert linked(fill, np.zeros(1, np.int64)).result == ""


def test_what_cannot_be_linked() -> None:
    with pytest.raises(UnlinkableError, match="NRT_"):
        linked(lambda count: np.ones(count).size, 5)
    with pytest.raises(UnlinkableError, match="returns float64"):
        linked(lambda number: number * 1.5, 5)
    with pytest.raises(UnlinkableError, match="returns Tuple"):
        linked(lambda number: (number, (number > 1, number)), 5)
    with pytest.raises(UnlinkableError, match="another kind of object file"):
        image_of(bytes(100), "f", numba.int64(numba.int64))


def test_a_function_that_takes_other_parts_than_calls_have_is_not_linked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(linking, "parts_of", lambda words: parts_of(words) + "P")

    with pytest.raises(UnlinkableError, match="takes PPqqPqqq"):
        linked(lambda rows, number: len(rows) + number, np.zeros(1, np.int64), 5)


def test_arguments_have_the_words_of_calls() -> None:
    rows = np.zeros(1, np.dtype((np.record, np.dtype([("a", np.int16), ("b", np.int64)], align=True))))
    kinds = [numba.typeof(each) for each in (rows, np.zeros((1, 1), np.uint8), Pair(1, 2), (1, True))]

    assert words_of(kinds) == [
        array_words(rows.dtype, 1, is_writable=True),
        array_words(np.dtype(np.uint8), 2, is_writable=True),
        tuple_words(Pair, 2),
        "int",
        "int",
        tuple_words(tuple, 2),
        "int",
        "bool",
    ]


@pytest.mark.parametrize("argument", [1.5, np.uint64(1), np.zeros((2, 2))[:, 0], np.zeros((2, 2)).T])
def test_other_arguments_have_none(argument: object) -> None:
    with pytest.raises(UnlinkableError):
        words_of([numba.typeof(argument)])
