"""Images in files and in memory, with a function of seven bytes."""

from __future__ import annotations

import ctypes
import marshal
import platform
import subprocess
import sys
import zlib

import pytest

from stratalog.records.kernels.images import Image, from_file, into_memory, nested, to_file
from tests.waiting import PATIENCE_S

only_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code for x86-64")

# mov rax, [rip + 1]; ret; and the eight bytes that it returns.
RETURN_NEXT = b"\x48\x8b\x05\x01\x00\x00\x00\xc3"


def image(value: int, **changed: object) -> Image:
    """Its function returns `value`, or what replaces it in memory."""
    code = RETURN_NEXT + value.to_bytes(8, "little")
    made = Image(code, entry=0, inner=(), outer=(), parameters="", result="q", is_tuple=False)
    return made._replace(**changed)


def call(address: int) -> int:
    found: int = ctypes.CFUNCTYPE(ctypes.c_uint64)(address)()
    return found


@only_x86
def test_code_runs() -> None:
    assert call(into_memory(image(12345))) == 12345


@only_x86
def test_the_function_may_begin_later() -> None:
    made = image(7)

    assert call(into_memory(made._replace(code=bytes(16) + made.code, entry=16))) == 7


@only_x86
def test_positions_become_addresses() -> None:
    start = into_memory(made := image(5, inner=(len(RETURN_NEXT),)))

    assert call(start) == start + 5
    assert call(into_memory(made)) != start + 5  # each time in memory of its own


@only_x86
def test_functions_of_c_are_found() -> None:
    expected = ctypes.cast(ctypes.CDLL(None).memmove, ctypes.c_void_p).value

    assert call(into_memory(image(0, outer=((len(RETURN_NEXT), "memmove"),)))) == expected


END = """
import ctypes
from stratalog.records.kernels import images
code = bytes.fromhex("b8 05 00 00 00 c3")  # mov eax, 5; ret
call = ctypes.CFUNCTYPE(ctypes.c_int32)(images.into_memory(images.Image(code, 0, (), (), "", "q", False)))
vars(images).clear()  # as the interpreter does when it ends
print(call())
"""


@only_x86
def test_a_daemon_thread_may_run_an_image_while_the_process_ends() -> None:
    done = subprocess.run([sys.executable, "-c", END], check=False, capture_output=True, timeout=PATIENCE_S)

    assert (done.returncode, done.stdout) == (0, b"5\n")


def test_a_file_holds_an_image() -> None:
    made = image(1, inner=(8,), outer=((0, "memcpy"),), parameters="Pq?", result="q(qq)", is_tuple=True)

    assert from_file(to_file(made, "stamp"), "stamp") == made
    assert from_file(to_file(made, "stamp"), "another stamp") is None


def test_every_damaged_byte_of_a_file_is_noticed() -> None:
    data = to_file(image(1), "stamp")

    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        assert from_file(damaged, "stamp") is None
    assert all(from_file(data[:size], "stamp") is None for size in range(len(data)))
    assert from_file(bytes(len(data)), "stamp") is None


@pytest.mark.parametrize("body", [b"\xff", b"", marshal.dumps(None)[:0], b"i\x00"])
def test_what_marshal_cannot_read_is_no_image(body: bytes) -> None:
    assert from_file(zlib.crc32(body).to_bytes(4, "little") + body, "stamp") is None


def test_results_have_the_alignment_of_c() -> None:
    assert image(0, result="?q").layout.size == 16
    assert image(0, result="q(qq)").layout.size == 24
    assert image(0, result="").layout.size == 0


def test_tuples_in_a_tuple() -> None:
    assert nested("q(qq)q", (1, 2, 3, 4)) == (1, (2, 3), 4)
    assert nested("(q(q))", (1, 2)) == ((1, (2,)),)
