"""Bytes as base64, for JSON: `cat -J --base64` writes it, and `append -J` reads it.

An object whose "encoding" is "base64" has its key, its payload and the values of its headers in this form.
"""

from __future__ import annotations

from base64 import b64decode, b64encode

BASE64 = "base64"


def to_base64(data: bytes | None) -> str | None:
    """Bytes as text; null stays null."""
    return None if data is None else b64encode(data).decode("ascii")


def from_base64(text: object) -> bytes | None:
    """The bytes that `to_base64` was given; ValueError if `text` is not base64."""
    if text is None:
        return None
    try:
        if isinstance(text, str):
            return b64decode(text, validate=True)
    except ValueError:
        pass
    raise ValueError(f"{text!r:.40} is not base64")
