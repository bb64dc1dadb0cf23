"""Images: kernels as machine code that runs without Numba, in files and in memory.

An image is what is left of one compiled kernel when nothing of Python is in it: instructions, constants, the
positions of addresses among them, and what the function takes and returns. `linking.py` makes it from
what Numba has compiled. Why: docs/decisions/0049-machine-code-without-numba.md.

A file has the CRC-32 of what follows (4 bytes), and then, in Python's marshal form, the stamp (a hash of all
that the image depends on, see `loaded.py`) and the image.
"""

from __future__ import annotations

import ctypes
import marshal
import mmap
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

_CHECKSUM_SIZE = 4
_ADDRESS = struct.Struct("<Q")


class Image(NamedTuple):
    """One kernel for one set of argument types."""

    code: bytes
    entry: int
    """Where the function begins."""
    inner: tuple[int, ...]
    """Where in the code an address of another place in the image belongs.

    The code has the position of that place there; `into_memory` adds the address at which the code begins.
    """
    outer: tuple[tuple[int, str], ...]
    """Positions of addresses of C functions, with the names of the functions."""
    parameters: str
    """The parts of all arguments, as `struct` names them: P an address, q an int64, ? a bool."""
    result: str
    """The parts of what it returns, as a `struct` with C's alignment; brackets are tuples in a tuple.

    Empty for None.
    """
    is_tuple: bool

    @property
    def layout(self) -> struct.Struct:
        """Where the parts of the result are in memory."""
        return struct.Struct("@" + self.result.translate({ord("("): None, ord(")"): None}))


NEEDS_NUMBA = Image(b"", 0, (), (), "", "", False)
"""In a file: Numba has compiled this kernel, and it cannot become an image."""


def to_file(image: Image, stamp: str) -> bytes:
    """The bytes of a file."""
    body = marshal.dumps((stamp, *image))
    return zlib.crc32(body).to_bytes(_CHECKSUM_SIZE, "little") + body


def from_file(data: bytes, stamp: str) -> Image | None:
    """The image in a file; None if the file is damaged or has another stamp."""
    body = data[_CHECKSUM_SIZE:]
    if zlib.crc32(body) != int.from_bytes(data[:_CHECKSUM_SIZE], "little") or not body:
        return None
    try:
        found, *parts = marshal.loads(body)
    except (ValueError, EOFError, TypeError):  # written by another version of Python
        return None
    return Image(*parts) if found == stamp else None


def into_memory(image: Image) -> int:
    """The address of the function, in memory that is executable and no longer writable.

    OSError if the system does not allow that.
    """
    memory = mmap.mmap(-1, len(image.code), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    memory[:] = image.code
    for position in image.inner:
        _ADDRESS.pack_into(memory, position, start + _ADDRESS.unpack_from(memory, position)[0])
    library = ctypes.CDLL(None, use_errno=True)
    for position, name in image.outer:
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        _ADDRESS.pack_into(memory, position, address)
    protection = mmap.PROT_READ | mmap.PROT_EXEC
    if library.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(len(image.code)), protection):
        raise OSError(ctypes.get_errno(), "mprotect")
    # The memory is never freed: when the interpreter ends, a daemon thread may still be running this code.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
    return start + image.entry


def nested(shape: str, values: Sequence[object]) -> tuple[object, ...]:
    """Values in tuples as the brackets of a result say: `q(qq)` and 1, 2, 3 are (1, (2, 3))."""
    rest = iter(values)
    open_tuples: list[list[object]] = [[]]
    for part in shape:
        if part == "(":
            open_tuples.append([])
        elif part == ")":
            whole = tuple(open_tuples.pop())
            open_tuples[-1].append(whole)
        else:
            open_tuples[-1].append(next(rest))
    return tuple(open_tuples[0])
