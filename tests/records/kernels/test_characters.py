"""Numbers and text as bytes, against Python's own and a slow twin of Java's replacement."""

from __future__ import annotations

import codecs
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.records.kernels.characters import is_utf8, write_number, write_text
from stratalog.records.kernels.memory import byte_array

INT64 = st.integers(-(2**63), 2**63 - 1)
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Bytes that start characters and do not end them, and whole ones.
PIECES = [
    b"plain",
    "ü€😀".encode(),
    b"\xed\xa0\x80",
    b"\xf0\x9f",
    b"\xe2\x82",
    b"\xc3",
    b"\xf4\x90",
    b"\xe0\x80",
]


def replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """Python's replacement, except that a surrogate, whole or without its last byte, is one character."""
    assert isinstance(error, UnicodeDecodeError)
    surrogate = re.match(rb"\xed[\xa0-\xbf][\x80-\xbf]?", error.object[error.start :])
    return REPLACEMENT, error.start + len(surrogate[0]) if surrogate else error.end


codecs.register_error("replace-as-java", replace_as_java)


def java_text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace-as-java")


def text_of(raw: bytes) -> str:
    out = np.zeros(3 * len(raw) + 1, np.uint8)
    end = write_text(byte_array(raw), 0, len(raw), out, 0)
    return out[:end].tobytes().decode("utf-8")


@given(st.binary(max_size=40) | st.lists(st.sampled_from(PIECES)).map(b"".join))
def test_bytes_are_utf8_or_not(raw: bytes) -> None:
    try:
        raw.decode("utf-8")
        expected = True
    except UnicodeDecodeError:
        expected = False

    assert is_utf8(byte_array(b"!" + raw), 1, 1 + len(raw)) == expected


@given(INT64)
def test_numbers_are_written_in_decimal(number: int) -> None:
    out = np.zeros(24, np.uint8)

    end = write_number(out, 2, np.int64(number))

    assert out[2:end].tobytes() == str(number).encode()
    assert not out[:2].any()
    assert not out[end:].any()


@pytest.mark.parametrize("number", [0, 9, 10, 99, 100, 2**63 - 1, -(2**63), *(10**n for n in range(19))])
def test_numbers_of_every_length(number: int) -> None:
    out = np.zeros(24, np.uint8)

    assert out[: write_number(out, 0, np.int64(number))].tobytes() == str(number).encode()


@given(st.text())
def test_text_is_written_as_it_is(text: str) -> None:
    assert text_of(text.encode("utf-8", "replace")) == text.encode("utf-8", "replace").decode()


@pytest.mark.parametrize(
    ("raw", "replaced"),
    [  # each by Java 17: new String(bytes, UTF_8)
        (b"\x80", "?"),
        (b"\xc0\xaf", "??"),
        (b"\xc3", "?"),
        (b"\xc3A", "?A"),
        (b"\xe0\x80\x80", "???"),
        (b"\xe2\x28\xa1", "?(?"),
        (b"\xe2\x82", "?"),
        (b"\xe2\x82A", "?A"),
        (b"\xed\xa0\x80", "?"),
        (b"\xed\xa0", "?"),
        (b"\xed\xa0A", "?A"),
        (b"\xf0\x80\x80\x80", "????"),
        (b"\xf0\x9f\x98", "?"),
        (b"\xf0\x9f\x98A", "?A"),
        (b"\xf0\x9fA", "?A"),
        (b"\xf4\x90\x80\x80", "????"),
        (b"\xf5\x80\x80\x80", "????"),
        (b"\xff\xfeabc", "??abc"),
    ],
)
def test_what_is_no_text_is_replaced_as_by_java(raw: bytes, replaced: str) -> None:
    assert text_of(b"plain " + raw) == "plain " + replaced.replace("?", "\N{REPLACEMENT CHARACTER}")


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=3))).map(b"".join))
def test_any_bytes_become_the_text_that_java_makes_of_them(raw: bytes) -> None:
    assert text_of(raw) == java_text(raw)
