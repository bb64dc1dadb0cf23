"""The functions of `memory.py`, and CRC-32C of eight bytes, as machine instructions for compiled kernels.

This module is imported with the first kernel that Numba compiles or loads.
"""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from stratalog.records.kernels.machine import compiled_features


def _address(context: Any, builder: Any, array_type: Any, array: Any, position: Any) -> Any:
    is_bare = isinstance(array_type, types.CPointer)
    data = array if is_bare else context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [position])


@intrinsic
def bare(typing_context: Any, data: Any) -> Any:
    del typing_context

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    pointer: Any = types.CPointer(types.uint8)  # type: ignore[no-untyped-call]
    return pointer(data), codegen


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


def _wrapping(operation: str) -> Any:
    """An intrinsic that adds or subtracts without the flag `nsw`, which Numba gives to every `+` and `-`."""

    def typing(typing_context: Any, left: Any, right: Any) -> Any:
        del typing_context, left, right

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            del context, signature
            return getattr(builder, operation)(*arguments)

        return types.int64(types.int64, types.int64), codegen

    return intrinsic(typing)


wrapped_sum = _wrapping("add")
wrapped_difference = _wrapping("sub")
load_u8 = _loader(8, types.uint8, swap=False)
load_i16 = _loader(16, types.int16, swap=True)
load_i32 = _loader(32, types.int32, swap=True)
load_u32 = _loader(32, types.uint32, swap=True)
load_i64 = _loader(64, types.int64, swap=True)
load_u64_le = _loader(64, types.uint64, swap=False)
move8 = _mover(8)
move16 = _mover(16)
move32 = _mover(32)


@intrinsic
def prefetch(typing_context: Any, data: Any, position: Any) -> Any:
    del typing_context, position

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], *arguments)
        number = ir.IntType(32)
        name = "llvm.prefetch.p0"
        function_type = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        function = builder.module.globals.get(name) or ir.Function(builder.module, function_type, name=name)
        builder.call(function, [address, number(0), number(3), number(1)])  # read, all caches, data
        return context.get_dummy_value()

    return types.void(data, types.intp), codegen


@intrinsic
def move(typing_context: Any, to: Any, to_position: Any, data: Any, position: Any, size: Any) -> Any:
    del typing_context, to_position, position, size

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = _address(context, builder, signature.args[0], arguments[0], arguments[1])
        source = _address(context, builder, signature.args[2], arguments[2], arguments[3])
        cgutils.raw_memcpy(  # type: ignore[no-untyped-call]
            builder, target, source, arguments[4], 1
        )
        return context.get_dummy_value()

    return types.void(to, types.intp, data, types.intp, types.intp), codegen


def _crc_instruction() -> str | None:
    """The LLVM name of the CPU's CRC-32C instruction for eight bytes, if the compiler may use it."""
    machine, features = platform.machine().lower(), compiled_features()
    if machine in ("x86_64", "amd64") and "crc32" in features:  # part of SSE 4.2
        return "llvm.x86.sse42.crc32.64.64"
    if machine in ("aarch64", "arm64") and "crc" in features:
        return "llvm.aarch64.crc32cx"
    return None


CRC_INSTRUCTION = _crc_instruction()


def _crc_word(typing_context: Any, crc: Any, word: Any) -> Any:
    """CRC-32C of eight bytes by the CPU's instruction."""
    del typing_context, crc, word
    x86 = "x86" in str(CRC_INSTRUCTION)
    width = ir.IntType(64 if x86 else 32)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        function_type = ir.FunctionType(width, [width, ir.IntType(64)])
        function = builder.module.globals.get(CRC_INSTRUCTION) or ir.Function(
            builder.module, function_type, name=CRC_INSTRUCTION
        )
        crc, word = arguments
        if x86:
            wide = builder.call(function, [builder.zext(crc, width), word])
            return builder.trunc(wide, ir.IntType(32))
        return builder.call(function, [crc, word])

    return types.uint32(types.uint32, types.uint64), codegen


crc_word = None if CRC_INSTRUCTION is None else intrinsic(_crc_word)
