"""Text as Kafka reads it: UTF-8, with Java's replacement for invalid bytes."""

from __future__ import annotations

import re

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()


def decode_text(raw: bytes) -> str:
    """UTF-8 as Java reads it; invalid bytes are replaced, so a client's odd name cannot hide a record."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        # Java replaces an encoded surrogate, whole or cut off, by one U+FFFD; Python uses one for each byte.
        return _SURROGATE.sub(_REPLACEMENT, raw).decode("utf-8", "replace")
