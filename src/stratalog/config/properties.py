"""Java's properties files: server.properties, and meta.properties in each log directory."""

from __future__ import annotations

import re
from collections.abc import Iterator


def parse_properties(text: str) -> dict[str, str]:
    """The keys and values of a Java properties file; the later of two equal keys wins."""
    found = {}
    for line in _logical_lines(text):
        match = _PROPERTY.match(line)
        assert match is not None, "the expression takes every line"
        found[_unescape(match[1])] = _unescape(line[match.end() :])
    return found


# The key ends at the first separator that no backslash protects; blanks around it are ignored.
_PROPERTY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|$)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _logical_lines(text: str) -> Iterator[str]:
    """The lines that are not blank or comments.

    A line that ends with an odd number of backslashes is joined with the next.
    """
    waiting = ""
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if not waiting and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            waiting += line[:-1]
            continue
        yield waiting + line
        waiting = ""
    if waiting:
        yield waiting


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _ESCAPED.get(match[2] or "", match[2] or "")

    return _ESCAPE.sub(plain, text)
