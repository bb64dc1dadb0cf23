"""SipHash-2-4 with 128 bits of output: the keyed hash of record keys.

Compaction keeps one slot for each key and compares only hashes. An attacker who could make two keys collide
could get another client's record removed. So the hash has a key, which is random and new for each compaction.
Reference: J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF".

This module also has murmur2, with which Kafka's producers choose a partition: other programs expect a key in
the partition that a producer would choose. Kafka: Utils.murmur2, BuiltInPartitioner.partitionForKey
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.limits import INT32_MAX
from stratalog.records.kernels.decode import RecordTable
from stratalog.records.kernels.jit import inlined, kernel
from stratalog.records.kernels.memory import Bytes, load_u8, load_u64_le

LANES = 64  # keys that are hashed together; their state stays in the first-level cache


@inlined
def _rotated(value: Any, bits: int) -> Any:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@inlined
def _round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0 += v1
    v2 += v3
    v1 = _rotated(v1, 13) ^ v0
    v3 = _rotated(v3, 16) ^ v2
    v0 = _rotated(v0, 32)
    v2 += v1
    v0 += v3
    v1 = _rotated(v1, 17) ^ v2
    v3 = _rotated(v3, 21) ^ v0
    v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


@kernel
def siphash128(data: Bytes, start: int, end: int, key0: Any, key1: Any) -> tuple[Any, Any]:
    """The two halves of the hash of data[start:end], little-endian words as in the reference."""
    v0 = key0 ^ np.uint64(0x736F6D6570736575)
    v1 = key1 ^ np.uint64(0x646F72616E646F6D) ^ np.uint64(0xEE)
    v2 = key0 ^ np.uint64(0x6C7967656E657261)
    v3 = key1 ^ np.uint64(0x7465646279746573)
    position = start
    while end - position >= 8:
        word = load_u64_le(data, position)
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        position += 8
    last = np.uint64((end - start) & 0xFF) << np.uint64(56)
    for i in range(end - position):
        last |= np.uint64(load_u8(data, position + i)) << np.uint64(8 * i)
    v3 ^= last
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= last
    v2 ^= np.uint64(0xEE)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v1 ^= np.uint64(0xDD)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


@kernel
def hash_keys(data: Bytes, rows: RecordTable, key0: Any, key1: Any, out: NDArray[np.uint64]) -> None:
    """Write the hash of each row's key to out[i]; a null key hashes like an empty one.

    Keys of one size, as most topics have, are hashed many at a time in vector registers.
    """
    words = np.empty(LANES, np.uint64)
    state = np.empty((4, LANES), np.uint64)
    first = 0
    while first < len(rows):
        size = max(rows[first].key_size, 0)
        count = 1
        while count < LANES and first + count < len(rows) and max(rows[first + count].key_size, 0) == size:
            count += 1
        if count == LANES:
            _hash_lanes(data, rows[first : first + count], size, key0, key1, words, state, out[first:])
        else:
            for i in range(first, first + count):
                start = rows[i].key_position
                low, high = siphash128(data, start, start + size, key0, key1)
                out[i, 0] = low
                out[i, 1] = high
        first += count


@kernel
def _hash_lanes(
    data: Bytes,
    rows: RecordTable,
    size: int,
    key0: Any,
    key1: Any,
    words: NDArray[np.uint64],
    state: NDArray[np.uint64],
    out: NDArray[np.uint64],
) -> None:
    """The hashes of LANES keys of one size. Each loop over lanes becomes vector instructions."""
    v0, v1, v2, v3 = state[0], state[1], state[2], state[3]
    for i in range(LANES):
        v0[i] = key0 ^ np.uint64(0x736F6D6570736575)
        v1[i] = key1 ^ np.uint64(0x646F72616E646F6D) ^ np.uint64(0xEE)
        v2[i] = key0 ^ np.uint64(0x6C7967656E657261)
        v3[i] = key1 ^ np.uint64(0x7465646279746573)
    whole = size - size % 8
    for at in range(0, whole + 8, 8):
        if at < whole:
            for i in range(LANES):
                words[i] = load_u64_le(data, rows[i].key_position + at)
        else:
            for i in range(LANES):
                last = np.uint64(size & 0xFF) << np.uint64(56)
                for k in range(size - whole):
                    last |= np.uint64(load_u8(data, rows[i].key_position + whole + k)) << np.uint64(8 * k)
                words[i] = last
        for i in range(LANES):
            a, b, c, d = v0[i], v1[i], v2[i], v3[i] ^ words[i]
            a, b, c, d = _round(a, b, c, d)
            a, b, c, d = _round(a, b, c, d)
            v0[i], v1[i], v2[i], v3[i] = a ^ words[i], b, c, d
    for i in range(LANES):
        a, b, c, d = v0[i], v1[i], v2[i] ^ np.uint64(0xEE), v3[i]
        a, b, c, d = _round(a, b, c, d)
        a, b, c, d = _round(a, b, c, d)
        a, b, c, d = _round(a, b, c, d)
        a, b, c, d = _round(a, b, c, d)
        words[i] = a ^ b ^ c ^ d
        b ^= np.uint64(0xDD)
        a, b, c, d = _round(a, b, c, d)
        a, b, c, d = _round(a, b, c, d)
        a, b, c, d = _round(a, b, c, d)
        a, b, c, d = _round(a, b, c, d)
        v0[i] = a ^ b ^ c ^ d
    for i in range(LANES):
        out[i, 0] = words[i]
        out[i, 1] = v0[i]


_MASK = 0xFFFFFFFF
_MURMUR_SEED = 0x9747B28C
_MURMUR_FACTOR = 0x5BD1E995  # below 2^31, so its product with a 32-bit number fits in int64


@kernel
def murmur2(data: Bytes, start: int, end: int) -> int:
    """The hash of data[start:end] as an unsigned 32-bit number; Java's has the same bits, signed."""
    found: Any = _MURMUR_SEED ^ (end - start)
    position = start
    while end - position >= 4:
        word: Any = np.int64(0)
        for i in range(4):
            word |= np.int64(load_u8(data, position + i)) << (8 * i)
        word = (word * _MURMUR_FACTOR) & _MASK
        word = ((word ^ (word >> 24)) * _MURMUR_FACTOR) & _MASK
        found = ((found * _MURMUR_FACTOR) & _MASK) ^ word
        position += 4
    if position < end:
        for i in range(end - position):
            found ^= np.int64(load_u8(data, position + i)) << (8 * i)
        found = (found * _MURMUR_FACTOR) & _MASK
    found = ((found ^ (found >> 13)) * _MURMUR_FACTOR) & _MASK
    found ^= found >> 15
    return found  # type: ignore[no-any-return]


@kernel
def choose_partitions(
    keys: Bytes, ends: NDArray[np.int32], valid: NDArray[np.bool_], count: int, out: NDArray[np.int32]
) -> None:
    """Write the partition (of `count`) of each key to `out`; rows without a key stay as they are."""
    for i in range(len(valid)):
        if valid[i]:
            # Widened explicitly: without the compiler NumPy would keep 32 bits.
            start: Any = np.int64(ends[i])
            end: Any = np.int64(ends[i + 1])
            found = murmur2(keys, start, end)
            out[i] = (found & INT32_MAX) % count
