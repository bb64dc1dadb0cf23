"""The errors for a compressed stream that cannot be read: the same sentences for every codec."""

from __future__ import annotations

from stratalog.errors import CorruptCompressionError, RecordTooLargeError


def corrupt(codec: str, what: str) -> CorruptCompressionError:
    return CorruptCompressionError(f"{codec} stream {what}. The batch cannot be read.")


def too_large(codec: str, size: int, limit: int) -> RecordTooLargeError:
    return RecordTooLargeError(
        f"{codec} stream holds at least {size} bytes, the limit is {limit}. "
        "Raise the limit if the data is trusted."
    )
