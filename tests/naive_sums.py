"""Checksums and hashes, the slow way: bit by bit, as their definitions have them."""

from __future__ import annotations

import struct

CASTAGNOLI, ZLIB = 0x82F63B78, 0xEDB88320


def crc32c(data: bytes) -> int:
    """CRC-32C, bit by bit."""
    return _crc(data, CASTAGNOLI)


def crc32(data: bytes) -> int:
    """CRC-32 of zlib, bit by bit."""
    return _crc(data, ZLIB)


def _crc(data: bytes, polynomial: int) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (polynomial if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def siphash128(data: bytes, key: bytes) -> bytes:
    """SipHash-2-4 with 16 bytes of output, after the paper of Aumasson and Bernstein."""
    k0, k1 = struct.unpack("<QQ", key)
    v = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D ^ 0xEE,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]
    whole = len(data) // 8 * 8
    words = list(struct.unpack(f"<{whole // 8}Q", data[:whole]))
    words.append(int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56)
    for word in words:
        v[3] ^= word
        _sip_rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xEE
    _sip_rounds(v, 4)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    _sip_rounds(v, 4)
    return struct.pack("<QQ", first, v[0] ^ v[1] ^ v[2] ^ v[3])


def _sip_rounds(v: list[int], count: int) -> None:
    for _ in range(count):
        v[0] = _add(v[0], v[1])
        v[1] = _rotate(v[1], 13) ^ v[0]
        v[0] = _rotate(v[0], 32)
        v[2] = _add(v[2], v[3])
        v[3] = _rotate(v[3], 16) ^ v[2]
        v[0] = _add(v[0], v[3])
        v[3] = _rotate(v[3], 21) ^ v[0]
        v[2] = _add(v[2], v[1])
        v[1] = _rotate(v[1], 17) ^ v[2]
        v[2] = _rotate(v[2], 32)


def _add(a: int, b: int) -> int:
    return (a + b) & 0xFFFFFFFFFFFFFFFF


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & 0xFFFFFFFFFFFFFFFF
