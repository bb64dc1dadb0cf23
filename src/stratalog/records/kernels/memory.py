"""Loads and copies at any byte position of a uint8 array, for the other kernels.

Numba compiles `data[i]` to single-byte loads and a byte loop to a byte loop. Each function here is one or two
machine instructions instead (unaligned, byte-swapped, or a vector copy), and none checks bounds: the caller
must have done that. Under NUMBA_DISABLE_JIT each has a plain twin with the same meaning.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from stratalog.records.kernels.jit import INTERPRETED, inlined

Bytes = NDArray[np.uint8]

if INTERPRETED:

    def load_u8(data: Bytes, position: int) -> int:
        return int(data[position])

    def load_i16(data: Bytes, position: int) -> int:
        return int.from_bytes(data[position : position + 2].tobytes(), "big", signed=True)

    def load_i32(data: Bytes, position: int) -> int:
        return int.from_bytes(data[position : position + 4].tobytes(), "big", signed=True)

    def load_u32(data: Bytes, position: int) -> int:
        return int.from_bytes(data[position : position + 4].tobytes(), "big")

    def load_i64(data: Bytes, position: int) -> int:
        return int.from_bytes(data[position : position + 8].tobytes(), "big", signed=True)

    def load_u64_le(data: Bytes, position: int) -> Any:  # Any: np.uint64, which mypy does not take for an int
        return np.uint64(int.from_bytes(data[position : position + 8].tobytes(), "little"))

    def prefetch(data: Bytes, position: int) -> None:
        del data, position

    def _move(to: Bytes, to_position: int, data: Bytes, position: int, size: int) -> None:
        to[to_position : to_position + size] = data[position : position + size]

    def _move8(to: Bytes, to_position: int, data: Bytes, position: int) -> None:
        _move(to, to_position, data, position, 8)

    def _move16(to: Bytes, to_position: int, data: Bytes, position: int) -> None:
        _move(to, to_position, data, position, 16)

    def _move32(to: Bytes, to_position: int, data: Bytes, position: int) -> None:
        _move(to, to_position, data, position, 32)

else:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    def _address(context: Any, builder: Any, array_type: Any, array: Any, position: Any) -> Any:
        data = context.make_array(array_type)(context, builder, array).data
        return builder.gep(data, [position])

    def _loader(bits: int, numba_type: Any, *, swap: bool) -> Any:
        """An intrinsic that loads an integer of this many bits from any byte position."""

        def typing(typing_context: Any, data: Any, position: Any) -> Any:
            del typing_context, position

            def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                address = _address(context, builder, signature.args[0], *arguments)
                pointer = builder.bitcast(address, ir.IntType(bits).as_pointer())
                value = builder.load(pointer, align=1)
                return builder.bswap(value) if swap else value

            return numba_type(data, types.intp), codegen

        return intrinsic(typing)

    def _mover(size: int) -> Any:
        """An intrinsic that copies exactly `size` bytes as one vector."""

        def typing(typing_context: Any, to: Any, to_position: Any, data: Any, position: Any) -> Any:
            del typing_context, to_position, position

            def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                vector = ir.VectorType(ir.IntType(8), size).as_pointer()
                source = _address(context, builder, signature.args[2], arguments[2], arguments[3])
                target = _address(context, builder, signature.args[0], arguments[0], arguments[1])
                value = builder.load(builder.bitcast(source, vector), align=1)
                builder.store(value, builder.bitcast(target, vector), align=1)
                return context.get_dummy_value()

            return types.void(to, types.intp, data, types.intp), codegen

        return intrinsic(typing)

    load_u8 = _loader(8, types.uint8, swap=False)
    load_i16 = _loader(16, types.int16, swap=True)
    load_i32 = _loader(32, types.int32, swap=True)
    load_u32 = _loader(32, types.uint32, swap=True)
    load_i64 = _loader(64, types.int64, swap=True)
    load_u64_le = _loader(64, types.uint64, swap=False)
    _move8 = _mover(8)
    _move16 = _mover(16)
    _move32 = _mover(32)

    @intrinsic
    def prefetch(typing_context: Any, data: Any, position: Any) -> Any:
        """Load a cache line before it is needed. Any address is allowed: a prefetch never faults."""
        del typing_context, position

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address = _address(context, builder, signature.args[0], *arguments)
            number = ir.IntType(32)
            name = "llvm.prefetch.p0"
            function_type = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
            function = builder.module.globals.get(name) or ir.Function(
                builder.module, function_type, name=name
            )
            builder.call(function, [address, number(0), number(3), number(1)])  # to read, keep close, data
            return context.get_dummy_value()

        return types.void(data, types.intp), codegen

    @intrinsic
    def _move(typing_context: Any, to: Any, to_position: Any, data: Any, position: Any, size: Any) -> Any:
        del typing_context, to_position, position, size

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            target = _address(context, builder, signature.args[0], arguments[0], arguments[1])
            source = _address(context, builder, signature.args[2], arguments[2], arguments[3])
            cgutils.raw_memcpy(  # type: ignore[no-untyped-call]
                builder, target, source, arguments[4], 1
            )
            return context.get_dummy_value()

        return types.void(to, types.intp, data, types.intp, types.intp), codegen


@inlined
def copy_bytes(to: Bytes, to_position: int, data: Bytes, position: int, size: int) -> None:
    """Copy `size` bytes; never touches a byte outside the two ranges.

    Keys and values are short, and calling the C library's memcpy costs more than the copy: two overlapping
    vectors cover any size between one and two vectors exactly.
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
