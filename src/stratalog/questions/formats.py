"""kcat's format strings: what `-f '%o %k: %s\\n'` prints of a record.

%s  the value             %k  the key               %t  the topic          %T  the timestamp, in milliseconds
%S  its size, -1 if null  %K  its size, -1 if null  %p  the partition      %h  headers, as name=value,...
%R  the same, 4 bytes     %%  a percent sign        %o  the offset

\\n, \\r and \\t mean the same as in C; \\x41 and \\65 are the byte with that number. Kafka's own tools have
no such language; kcat is the tool that people know.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stratalog.errors import UsageError

# The column that each letter needs.
COLUMNS = {
    "s": "value",
    "S": "value",
    "R": "value",
    "k": "key",
    "K": "key",
    "t": "topic",
    "p": "partition",
    "o": "offset",
    "T": "timestamp",
    "h": "headers",
}
_TOKEN = re.compile(r"%(.?)", re.DOTALL)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]+|[0-9]+|.)", re.DOTALL)
_CONTROL = {"n": b"\n", "r": b"\r", "t": b"\t"}


@dataclass(frozen=True, slots=True)
class FormatField:
    """A part of a format that is different for each record; `letter` is one of COLUMNS."""

    letter: str

    @property
    def column(self) -> str:
        return COLUMNS[self.letter]


Format = tuple[FormatField | bytes, ...]
"""Fields, and bytes that are the same for each record."""


def parse_format(text: str) -> Format:
    """The parts of a format string; UsageError for a letter that does not exist."""
    parts: list[FormatField | bytes] = []
    position = 0
    for match in _TOKEN.finditer(text):
        parts.append(unescaped(text[position : match.start()]))
        position = match.end()
        letter = match[1]
        if letter == "%":
            parts.append(b"%")
        elif letter in COLUMNS:
            parts.append(FormatField(letter))
        else:
            known = " ".join(f"%{each}" for each in COLUMNS)
            raise UsageError(f"the format has %{letter}, and there is only {known} and %%.")
    parts.append(unescaped(text[position:]))
    return _joined(parts)


def default_format(*, delimiter: str = "\\n", key_delimiter: str | None = None) -> Format:
    """The default format: the value; before it the key and `key_delimiter`, if that is given."""
    end = unescaped(delimiter)
    if key_delimiter is None:
        return FormatField("s"), end
    return FormatField("k"), unescaped(key_delimiter), FormatField("s"), end


def unescaped(text: str) -> bytes:
    """Text with backslashes as the bytes that it means; UTF-8."""
    found, position = b"", 0
    for match in _ESCAPE.finditer(text):
        found += text[position : match.start()].encode("utf-8", "surrogateescape")
        position = match.end()
        found += _character(match[1])
    return found + text[position:].encode("utf-8", "surrogateescape")


def _character(escape: str) -> bytes:
    """The byte for what follows a backslash; as in C, a number with a leading zero is octal."""
    if escape[0] == "x" and len(escape) > 1:
        return bytes([int(escape[1:], 16) & 0xFF])
    if escape.isdecimal():
        is_octal = escape[0] == "0" and set(escape) <= set("01234567")
        return bytes([int(escape, 8 if is_octal else 10) & 0xFF])
    return _CONTROL.get(escape, escape.encode("utf-8", "surrogateescape"))


def _joined(parts: list[FormatField | bytes]) -> Format:
    """The parts, with neighbouring bytes joined to one part, and without empty parts."""
    found: list[FormatField | bytes] = []
    for part in parts:
        if isinstance(part, bytes) and found and isinstance(found[-1], bytes):
            found[-1] += part
        elif part != b"":
            found.append(part)
    return tuple(found)
