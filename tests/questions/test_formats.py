"""kcat's format strings. tests/kafka/test_cat.py compares what they print with kcat itself."""

from __future__ import annotations

import pytest

from stratalog.errors import UsageError
from stratalog.questions.formats import FormatField, default_format, parse_format, unescaped


def test_letters_and_text_are_parts() -> None:
    found = parse_format("Topic %t [%p] at %o: %s\\n")

    assert found == (
        b"Topic ",
        FormatField("t"),
        b" [",
        FormatField("p"),
        b"] at ",
        FormatField("o"),
        b": ",
        FormatField("s"),
        b"\n",
    )


def test_a_percent_sign_is_text() -> None:
    assert parse_format("100%% of %k") == (b"100% of ", FormatField("k"))


@pytest.mark.parametrize("text", ["%z", "at the end %"])
def test_a_letter_that_there_is_not_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="there is only %s"):
        parse_format(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\\n\\r\\t", b"\n\r\t"),
        ("\\x41B", b"\x1b"),  # as C reads a hexadecimal number: as many digits as there are
        ("\\x01", b"\x01"),
        ("\\65", b"A"),
        ("\\012", b"\n"),
        ("\\\\", b"\\"),
        ("\\q", b"q"),
        ("é", b"\xc3\xa9"),
        ("end\\", b"end\\"),
    ],
)
def test_backslashes_are_those_of_kcat(text: str, expected: bytes) -> None:
    assert unescaped(text) == expected


def test_without_a_format_the_value_is_a_line() -> None:
    assert default_format() == (FormatField("s"), b"\n")
    assert default_format(delimiter="\\x00", key_delimiter="\\t") == (
        FormatField("k"),
        b"\t",
        FormatField("s"),
        b"\0",
    )
