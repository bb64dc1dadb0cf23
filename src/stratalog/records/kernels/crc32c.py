"""CRC-32C (Castagnoli), as v2 batches carry it, and CRC-32 (zlib), as v0 and v1 messages do.

x86-64 and ARM64 have an instruction for eight bytes. It takes three cycles, but another can start in each
cycle. So a long range is cut into three equal streams that run side by side, and their checksums are joined.
The checksum of A followed by B is crc(A) moved over len(B) zero bytes, xor crc(B). Moving a checksum over
zeros is linear, so it takes four look-ups in a table that is made for one stream length. Two stream lengths
are used: a long one for batches of kilobytes, a short one for what is left. On x86-64, the long blocks keep a
second unit of the CPU busy, too (`fused_crc.py`). What is too short for three short streams is one stream:
the CPU overlaps neighbouring batches by itself. Without the instruction, eight tables process eight bytes at
a time.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.records.kernels.jit import INTERPRETED, compiled_by, inlined, kernel
from stratalog.records.kernels.memory import Bytes, bare, intrinsic, load_u8, load_u64_le, prefetch

CASTAGNOLI = 0x82F63B78
ZLIB = 0xEDB88320
LONG_STREAM_SIZE = 1024
LONG_BLOCK_SIZE = 3 * LONG_STREAM_SIZE
SHORT_STREAM_SIZE = 64
# The hardware prefetcher stops at the end of each 4 KiB page. Prefetching one page ahead checks 16 KiB
# batches 1.6 times as fast (measured over 1 GiB: 8.4 -> 13.6 GB/s).
AHEAD_SIZE = 4096
MULTIPLES = ((6777, (484, 100, 0)), (290, (136, 113, 107, 32, 0)))
"""Multiples of the polynomial with few terms: the degree, and the powers of the other terms.

Found by a search among all multiples with four terms up to degree 9000, and with six up to 330: in these two,
the gap after the first term is the longest in relation to the degree. There are none with fewer terms.
"""
FOLDED_SIZE = 450  # from this size on, folding is quicker than a loop over all bytes

CrcTable = NDArray[np.uint32]


def _byte_tables(polynomial: int) -> CrcTable:
    """tables[k][b]: the checksum of byte b followed by k zero bytes."""
    tables = np.zeros((8, 256), np.uint32)
    values = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = (values >> np.uint32(1)) ^ (values & np.uint32(1)) * np.uint32(polynomial)
    tables[0] = values
    for k in range(1, 8):
        before = tables[k - 1]
        tables[k] = (before >> np.uint32(8)) ^ tables[0][before & np.uint32(0xFF)]
    return tables


def _zeros_table(size: int) -> CrcTable:
    """table[k][b]: what byte k of a checksum becomes when `size` (a power of two) zero bytes follow."""
    bits = np.arange(32, dtype=np.uint32)
    images = np.left_shift(np.uint32(1), bits)  # of each bit, before the move
    images = (images >> np.uint32(8)) ^ CASTAGNOLI_TABLES[0][images & np.uint32(0xFF)]
    for _ in range(size.bit_length() - 1):  # moved twice as far each time
        has_bit = images[:, np.newaxis] >> bits & np.uint32(1)
        images = np.bitwise_xor.reduce(has_bit * images, axis=1)
    table = np.zeros((4, 256), np.uint32)
    for k in range(4):
        for bit in range(8):
            has_bit = (np.arange(256) >> bit & 1).astype(bool)
            table[k, has_bit] ^= images[8 * k + bit]
    return table


@cache
def _bytes_of_castagnoli() -> list[int]:
    return [int(value) for value in CASTAGNOLI_TABLES[0]]


CASTAGNOLI_TABLES = _byte_tables(CASTAGNOLI)
ZLIB_TABLES = _byte_tables(ZLIB)
LONG_ZEROS = _zeros_table(LONG_STREAM_SIZE)
SHORT_ZEROS = _zeros_table(SHORT_STREAM_SIZE)


@compiled_by(intrinsic("crc_word"))
def _crc_word(crc: Any, word: Any) -> Any:
    """Eight bytes, little-endian in `word`, through eight tables; in compiled code the CPU's instruction."""
    mixed = np.uint64(crc) ^ word
    value = np.uint32(0)
    for k in range(8):
        byte = (mixed >> np.uint64(8 * k)) & np.uint64(0xFF)
        value ^= CASTAGNOLI_TABLES[7 - k, byte]
    return value


@kernel
def _moved(table: CrcTable, crc: Any) -> Any:
    return (
        table[0, crc & np.uint32(0xFF)]
        ^ table[1, (crc >> np.uint32(8)) & np.uint32(0xFF)]
        ^ table[2, (crc >> np.uint32(16)) & np.uint32(0xFF)]
        ^ table[3, crc >> np.uint32(24)]
    )


@kernel
def _three_streams(data: Bytes, position: int, size: int, zeros: CrcTable, crc: Any) -> Any:
    """The checksum of what came before, followed by three consecutive ranges of `size` bytes.

    Each range starts from zero, and `crc` is joined at the end: so the CPU begins with these ranges while it
    still joins the ranges before them.
    """
    first, second, third = np.uint32(0), np.uint32(0), np.uint32(0)
    for line in range(position, position + size, 64):
        prefetch(data, line + AHEAD_SIZE)
        prefetch(data, line + size + AHEAD_SIZE)
        prefetch(data, line + 2 * size + AHEAD_SIZE)
        for at in range(line, line + 64, 8):
            first = _crc_word(first, load_u64_le(data, at))
            second = _crc_word(second, load_u64_le(data, at + size))
            third = _crc_word(third, load_u64_le(data, at + 2 * size))
    # To Numba, the result of two 32-bit numbers has 64 bits, and a function that is called with both types is
    # compiled twice.
    crc = np.uint32(_moved(zeros, crc) ^ first)
    crc = np.uint32(_moved(zeros, crc) ^ second)
    return np.uint32(_moved(zeros, crc) ^ third)


def _fused() -> Any:
    """An intrinsic of Numba; None if the CPU has no second unit for checksums."""
    from stratalog.records.kernels import fused_crc

    return fused_crc.long_block


@compiled_by(_fused)
def _long_block(data: Bytes, position: int, crc: Any) -> Any:
    """The checksum of what came before, followed by LONG_BLOCK_SIZE bytes."""
    return _three_streams(data, position, LONG_STREAM_SIZE, LONG_ZEROS, crc)


def _crc32c_twin(data: Bytes, start: int, end: int) -> Any:
    """The same in plain Python: byte by byte, because single NumPy numbers are slow."""
    crc = 0xFFFFFFFF
    rest = data[start:end]
    if end - start >= FOLDED_SIZE:
        rest, crc = _folded(rest), 0
    table = _bytes_of_castagnoli()
    for byte in rest.tobytes():
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return np.uint32(crc ^ 0xFFFFFFFF)


def _folded(data: Bytes) -> Bytes:
    """A few hundred bytes whose checksum, started at zero, is that of `data`, started as usual.

    A checksum is the remainder of a division by a polynomial, so multiples of this polynomial may be added.
    Adding one of MULTIPLES shifts the first bytes to a few later places, with NumPy's xor. The square of a
    polynomial has the same terms at twice the distances, and so on: so the same few terms fold any size.
    """
    rest = data.copy()
    rest[:4] ^= np.uint8(0xFF)  # a checksum starts with 32 ones
    for degree, powers in MULTIPLES:
        scale = 1 << max((len(rest) // degree).bit_length() - 1, 0)
        while scale:
            while len(rest) > degree * scale:
                count = min((degree - powers[0]) * scale, len(rest) - degree * scale)
                for power in powers:
                    place = (degree - power) * scale
                    rest[place : place + count] ^= rest[:count]
                rest = rest[count:]
            scale >>= 1
    return rest


def _crc32_zlib_twin(data: Bytes, start: int, end: int) -> Any:
    return np.uint32(zlib.crc32(data[start:end].data))


def checksum_us(size: int) -> int:
    """About how many microseconds plain Python takes for a checksum of so many bytes."""
    return min(size // 16, 50 + size // 1000)


@kernel(
    size=lambda _data, start, end: (end - start) // 8,
    plain_us=lambda _data, start, end: checksum_us(end - start),
    twin=_crc32c_twin,
)
def crc32c(data: Bytes, start: int, end: int) -> Any:
    """CRC-32C of data[start:end]; the caller has checked that the range is inside the array."""
    return crc32c_of_bare(bare(data), start, end)


@kernel(twin=_crc32c_twin)
def crc32c_of_bare(data: Bytes, start: int, end: int) -> Any:
    """The same for other kernels, which have the bytes without their owner already."""
    crc = np.uint32(0xFFFFFFFF)
    position = start
    while end - position >= LONG_BLOCK_SIZE:
        crc = _long_block(data, position, crc)
        position += LONG_BLOCK_SIZE
    while end - position >= 3 * SHORT_STREAM_SIZE:
        crc = _three_streams(data, position, SHORT_STREAM_SIZE, SHORT_ZEROS, crc)
        position += 3 * SHORT_STREAM_SIZE
    if end - start >= 8:
        return _last_words(data, position, end, crc)
    while position < end:
        crc = CASTAGNOLI_TABLES[0, (crc ^ np.uint32(load_u8(data, position))) & np.uint32(0xFF)] ^ (
            crc >> np.uint32(8)
        )
        position += 1
    return crc ^ np.uint32(0xFFFFFFFF)


def _crc32c_of_three_twin(
    data: Bytes, starts: tuple[int, int, int], ends: tuple[int, int, int]
) -> tuple[Any, Any, Any]:
    first, second, third = (_crc32c_twin(data, *each) for each in zip(starts, ends, strict=True))
    return first, second, third


@inlined(twin=_crc32c_of_three_twin)
def crc32c_of_three(
    data: Bytes, starts: tuple[int, int, int], ends: tuple[int, int, int]
) -> tuple[Any, Any, Any]:
    """The checksums of three ranges of at least eight bytes, side by side.

    For neighbouring small batches: each is one stream, so there are no checksums to join.
    """
    first = second = third = np.uint32(0xFFFFFFFF)
    at, second_at, third_at = starts
    lines = min(ends[0] - at, ends[1] - second_at, ends[2] - third_at) >> 6
    for _ in range(lines):
        prefetch(data, at + AHEAD_SIZE)
        prefetch(data, second_at + AHEAD_SIZE)
        prefetch(data, third_at + AHEAD_SIZE)
        for word in range(0, 64, 8):
            first = _crc_word(first, load_u64_le(data, at + word))
            second = _crc_word(second, load_u64_le(data, second_at + word))
            third = _crc_word(third, load_u64_le(data, third_at + word))
        at += 64
        second_at += 64
        third_at += 64
    return (
        _last_words(data, at, ends[0], first),
        _last_words(data, second_at, ends[1], second),
        _last_words(data, third_at, ends[2], third),
    )


@inlined
def _last_words(data: Bytes, position: int, end: int, crc: Any) -> Any:
    """Complete the checksum of a range with data[position:end]; the range has eight bytes or more.

    The last eight bytes of the range are loaded, and the bytes that were not processed yet are moved to the
    upper end of the word and xored with the checksum so far. The zeros below them have no effect, because the
    checksum starts at zero there.
    """
    while end - position >= 8:
        crc = _crc_word(crc, load_u64_le(data, position))
        position += 8
    left = np.uint64(8 * (end - position))
    if left:
        above = np.uint64(64) - left
        word = (load_u64_le(data, end - 8) >> above ^ np.uint64(crc)) << above
        crc = _crc_word(np.uint32(0), word) ^ np.uint32(np.uint64(crc) >> left)
    return crc ^ np.uint32(0xFFFFFFFF)


@kernel(size=lambda _data, start, end: (end - start) // 1000, twin=_crc32_zlib_twin)
def crc32_zlib(data: Bytes, start: int, end: int) -> Any:
    """CRC-32 of data[start:end] as zlib computes it; v0 and v1 messages carry it."""
    crc = np.uint32(0xFFFFFFFF)
    position = start
    while end - position >= 8:
        mixed = np.uint64(crc) ^ load_u64_le(data, position)
        crc = np.uint32(0)
        for k in range(8):
            crc ^= ZLIB_TABLES[7 - k, (mixed >> np.uint64(8 * k)) & np.uint64(0xFF)]
        position += 8
    while position < end:
        crc = ZLIB_TABLES[0, (crc ^ np.uint32(load_u8(data, position))) & np.uint32(0xFF)] ^ (
            crc >> np.uint32(8)
        )
        position += 1
    return crc ^ np.uint32(0xFFFFFFFF)


if INTERPRETED:  # NumPy warns of the wrap-around, which is intended here
    np.seterr(over="ignore")
