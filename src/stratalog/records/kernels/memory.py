"""Loads and copies at any byte position of a uint8 array, for the other kernels.

Numba compiles `data[i]` to a load of a single byte, and a loop over bytes stays a loop over bytes. In
compiled kernels each function here is one or two machine instructions instead (`intrinsics.py`): unaligned,
byte-swapped, or a vector copy. No function checks bounds: the caller must have done that.

Sums of numbers from a file are here too (`wrapped_sum`), because in compiled kernels a plain `+` is not safe.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from stratalog.records.kernels.jit import compiled_by, inlined

Bytes = NDArray[np.uint8]


def intrinsic(name: str) -> Callable[[], Any]:  # Any: an intrinsic of Numba
    """A function that makes the intrinsic of this name when a kernel is compiled."""

    def make() -> Any:
        from stratalog.records.kernels import intrinsics

        return getattr(intrinsics, name)

    return make


@compiled_by(intrinsic("bare"))
def bare(data: Bytes) -> Bytes:
    """The bytes without their owner: in compiled code a pointer, valid as long as the caller has `data`.

    Numba counts references to an array where it is passed to an inlined function. Each count is an atomic
    operation, which also waits for all loads before it.
    """
    return data


@compiled_by(intrinsic("load_u8"))
def load_u8(data: Bytes, position: int) -> int:
    return int(data[position])


@compiled_by(intrinsic("load_i16"))
def load_i16(data: Bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 2].tobytes(), "big", signed=True)


@compiled_by(intrinsic("load_i32"))
def load_i32(data: Bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 4].tobytes(), "big", signed=True)


@compiled_by(intrinsic("load_u32"))
def load_u32(data: Bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 4].tobytes(), "big")


@compiled_by(intrinsic("load_i64"))
def load_i64(data: Bytes, position: int) -> Any:  # Any: np.int64, which mypy does not accept as an int
    # Not an int: what is computed from damaged offsets and timestamps must wrap, as in Java. In compiled code
    # only the functions below wrap. If the result of a plain `+` or `-` is compared, LLVM may change the
    # comparison; see `wrapped_sum`.
    return np.int64(int.from_bytes(data[position : position + 8].tobytes(), "big", signed=True))


@compiled_by(intrinsic("wrapped_sum"))
def wrapped_sum(left: Any, right: Any) -> Any:  # Any: np.int64 or int
    """The sum in 64 bits, which wraps as in Java: for offsets and timestamps that may be damaged.

    Numba tells LLVM that `left + right` never overflows. LLVM then makes `left + right >= left` into
    `right >= 0`, which is wrong exactly for the damaged numbers that the comparison should find.
    """
    return np.int64(left) + np.int64(right)


@compiled_by(intrinsic("wrapped_difference"))
def wrapped_difference(left: Any, right: Any) -> Any:  # Any: np.int64 or int
    """As `wrapped_sum`, for `left - right`."""
    return np.int64(left) - np.int64(right)


@compiled_by(intrinsic("load_u64_le"))
def load_u64_le(data: Bytes, position: int) -> Any:  # Any: np.uint64, which mypy does not accept as an int
    return np.uint64(int.from_bytes(data[position : position + 8].tobytes(), "little"))


@compiled_by(intrinsic("prefetch"))
def prefetch(data: Bytes, position: int) -> None:
    """Load a cache line before it is needed. Any address is allowed: a prefetch never faults."""
    del data, position


@compiled_by(intrinsic("move"))
def _move(to: Bytes, to_position: int, data: Bytes, position: int, size: int) -> None:
    to[to_position : to_position + size] = data[position : position + size]


@compiled_by(intrinsic("move8"))
def _move8(to: Bytes, to_position: int, data: Bytes, position: int) -> None:
    to[to_position : to_position + 8] = data[position : position + 8]


@compiled_by(intrinsic("move16"))
def _move16(to: Bytes, to_position: int, data: Bytes, position: int) -> None:
    to[to_position : to_position + 16] = data[position : position + 16]


@compiled_by(intrinsic("move32"))
def _move32(to: Bytes, to_position: int, data: Bytes, position: int) -> None:
    to[to_position : to_position + 32] = data[position : position + 32]


@inlined
def copy_bytes(to: Bytes, to_position: int, data: Bytes, position: int, size: int) -> None:
    """Copy `size` bytes; never touches a byte outside the two ranges.

    Keys and values are short, and calling the C library's memcpy costs more than the copy itself. Two vectors
    that may overlap cover exactly any size between one and two vectors.
    """
    if size >= 16:
        if size <= 32:
            _move16(to, to_position, data, position)
            _move16(to, to_position + size - 16, data, position + size - 16)
        elif size <= 128:
            _move32(to, to_position, data, position)
            if size > 64:
                _move32(to, to_position + 32, data, position + 32)
                _move32(to, to_position + size - 64, data, position + size - 64)
            _move32(to, to_position + size - 32, data, position + size - 32)
        else:
            _move(to, to_position, data, position, size)
    elif size >= 8:
        _move8(to, to_position, data, position)
        _move8(to, to_position + size - 8, data, position + size - 8)
    else:
        for i in range(size):
            to[to_position + i] = data[position + i]


def byte_array(buffer: Any) -> Bytes:  # Any: any object with the buffer protocol, also an ndarray
    """The buffer's bytes as one flat uint8 array, without a copy.

    The array claims to be writable even over `bytes`: Numba would otherwise compile every kernel twice, for
    read-only and for writable input. Kernels write only to what they name as output.
    """
    view = np.frombuffer(buffer, np.uint8)
    if view.flags.writeable or view.size == 0:
        return view if view.size else np.empty(0, np.uint8)
    return np.asarray(_Pointed(view))


class _Pointed:
    """Holds a read-only array and describes its memory to NumPy as writable."""

    def __init__(self, view: Bytes) -> None:
        self.view = view
        address = cast("tuple[int, bool]", view.__array_interface__["data"])[0]
        self.__array_interface__ = {
            "shape": view.shape,
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }
