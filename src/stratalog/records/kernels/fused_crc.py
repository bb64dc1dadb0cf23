"""CRC-32C of a block of bytes on x86-64, by two units of the CPU at the same time.

One unit computes the CRC instruction: eight bytes per cycle, in three streams, as one result takes three
cycles. Another unit multiplies polynomials without carries, which folds: the remainder of a division by the
CRC's polynomial stays the same if the first 16 bytes are multiplied by x^n mod P and added to the 16 bytes
that begin n bits later. Two multiplications fold 16 bytes, so this unit takes eight bytes per cycle, too.

The first half of a block are the three streams, the second half is folded to 16 bytes. Then the checksum of
each stream is moved to the end of the block by one more multiplication, and added to the last eight of these
bytes. The CRC instruction takes the remainder of all of it.

This module is imported when a kernel that uses it is compiled.
"""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from stratalog.records.kernels.crc32c import AHEAD_SIZE, CASTAGNOLI, LONG_BLOCK_SIZE
from stratalog.records.kernels.machine import compiled_features

STREAMS = 3
ROUNDS = 16  # of the loop
WORDS, VECTORS = 4, 6  # in a round: of each stream, and of the folded part
_STREAM_SIZE, _FOLDED_SIZE = ROUNDS * WORDS * 8, ROUNDS * VECTORS * 16
assert STREAMS * _STREAM_SIZE + _FOLDED_SIZE == LONG_BLOCK_SIZE

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_PAIR = ir.VectorType(_I64, 2)


def power_of_x(exponent: int) -> int:
    """x^exponent mod P, with the coefficient of x^0 in bit 31, as in a checksum."""
    value = 1 << 31
    for _ in range(exponent):
        value = value >> 1 ^ (CASTAGNOLI if value & 1 else 0)
    return value


def is_possible() -> bool:
    """Whether the compiler may use both instructions."""
    return platform.machine().lower() in ("x86_64", "amd64") and {"crc32", "pclmul"} <= compiled_features()


class _Code:
    """Makes the instructions of a block."""

    def __init__(self, builder: Any, start: Any) -> None:  # Any: llvmlite's builder, and an address
        self._builder, self._start = builder, start
        self._crc = self._function("llvm.x86.sse42.crc32.64.64", _I64, [_I64, _I64])
        self._multiply = self._function("llvm.x86.pclmulqdq", _PAIR, [_PAIR, _PAIR, _I8])
        arguments = [start.type, _I32, _I32, _I32]
        self._prefetch = self._function("llvm.prefetch.p0", ir.VoidType(), arguments)

    def checksum(self, crc: Any) -> Any:
        """The 32 bits of the checksum, where `crc` is that of everything before the block."""
        streams, folded = self._rounds(crc)
        # What follows a stream in the block; the CRC instruction below multiplies by x^33 more.
        after = [LONG_BLOCK_SIZE - (number + 1) * _STREAM_SIZE for number in range(STREAMS)]
        moved = [self._moved(each, size) for each, size in zip(streams, after, strict=True)]
        total = folded[-1]
        for number, vector in enumerate(folded[:-1]):
            total = self._builder.xor(total, self._folded(vector, 16 * (VECTORS - 1 - number)))
        for vector in moved:
            total = self._builder.xor(total, vector)
        halves = [self._builder.extract_element(total, _I32(number)) for number in range(2)]
        found = self._builder.call(self._crc, [_I64(0), halves[0]])
        return self._builder.trunc(self._builder.call(self._crc, [found, halves[1]]), _I32)

    def _rounds(self, crc: Any) -> tuple[list[Any], list[Any]]:
        """A loop over the block; returns the checksums of the streams, and the vectors that are left."""
        builder = self._builder
        before, loop = builder.block, builder.append_basic_block("crc_rounds")
        first = builder.zext(crc, _I64)
        builder.branch(loop)
        builder.position_at_end(loop)
        number = _variable(builder, _I64, _I64(0), before)
        begin = [first] + [_I64(0)] * (STREAMS - 1)
        streams = [_variable(builder, _I64, value, before) for value in begin]
        vectors = [_variable(builder, _PAIR, ir.Constant(_PAIR, [0, 0]), before) for _ in range(VECTORS)]
        words_at = builder.mul(number, _I64(8 * WORDS))
        vectors_at = builder.add(builder.mul(number, _I64(16 * VECTORS)), _I64(STREAMS * _STREAM_SIZE))
        for stream in range(STREAMS):
            self._prefetch_at(builder.add(words_at, _I64(stream * _STREAM_SIZE + AHEAD_SIZE)))
        self._prefetch_at(builder.add(vectors_at, _I64(AHEAD_SIZE)))
        self._prefetch_at(builder.add(vectors_at, _I64(AHEAD_SIZE + 64)))
        sums, folded = list(streams), []
        # In turns, so that both units have work from the first instruction of a round on.
        for step in range(max(WORDS, VECTORS)):
            if step < VECTORS:
                loaded = self._load(builder.add(vectors_at, _I64(16 * step)), _PAIR)
                folded.append(builder.xor(self._folded(vectors[step], 16 * VECTORS), loaded))
            if step < WORDS:
                for stream in range(STREAMS):
                    at = builder.add(words_at, _I64(stream * _STREAM_SIZE + 8 * step))
                    sums[stream] = builder.call(self._crc, [sums[stream], self._load(at, _I64)])
        next_number = builder.add(number, _I64(1))
        for variable, value in zip([number, *streams, *vectors], [next_number, *sums, *folded], strict=True):
            variable.add_incoming(value, loop)
        after = builder.append_basic_block("crc_rounds_end")
        builder.cbranch(builder.icmp_unsigned("<", next_number, _I64(ROUNDS)), loop, after)
        builder.position_at_end(after)
        return sums, folded

    def _folded(self, vector: Any, size: int) -> Any:
        """What a vector becomes `size` bytes later."""
        # A product of two reversed polynomials has one bit less than twice their bits: hence 31 and 33.
        powers = ir.Constant(_PAIR, [power_of_x(8 * size + 31), power_of_x(8 * size - 33)])
        low = self._builder.call(self._multiply, [vector, powers, _I8(0x00)])
        high = self._builder.call(self._multiply, [vector, powers, _I8(0x11)])
        return self._builder.xor(low, high)

    def _moved(self, crc: Any, size: int) -> Any:
        """A checksum that `size` bytes follow, as the upper half of the vector at their end."""
        vector = self._builder.insert_element(ir.Constant(_PAIR, [0, 0]), crc, _I32(0))
        power = ir.Constant(_PAIR, [power_of_x(8 * size - 33), 0])
        product = self._builder.call(self._multiply, [vector, power, _I8(0x00)])
        low = self._builder.extract_element(product, _I32(0))
        return self._builder.insert_element(ir.Constant(_PAIR, [0, 0]), low, _I32(1))

    def _load(self, position: Any, kind: Any) -> Any:
        address = self._builder.gep(self._start, [position])
        return self._builder.load(self._builder.bitcast(address, kind.as_pointer()), align=1)

    def _prefetch_at(self, position: Any) -> None:
        address = self._builder.gep(self._start, [position])
        self._builder.call(self._prefetch, [address, _I32(0), _I32(3), _I32(1)])  # read, all caches, data

    def _function(self, name: str, result: Any, arguments: list[Any]) -> Any:
        module = self._builder.module
        known = module.globals.get(name)
        return known or ir.Function(module, ir.FunctionType(result, arguments), name=name)


def _variable(builder: Any, kind: Any, value: Any, before: Any) -> Any:
    """A value that changes with each round of a loop; before the first round it is `value`."""
    variable = builder.phi(kind)
    variable.add_incoming(value, before)
    return variable


def _long_block(typing_context: Any, data: Any, position: Any, crc: Any) -> Any:
    del typing_context, position, crc

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        start, position, crc = arguments
        return _Code(builder, builder.gep(start, [position])).checksum(crc)

    return types.uint32(data, types.intp, types.uint32), codegen


long_block = intrinsic(_long_block) if is_possible() else None
