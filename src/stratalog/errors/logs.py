"""Errors of a log or a segment that cannot do what the caller asks."""

from __future__ import annotations

import os

from stratalog.errors.root import StratalogError
from stratalog.limits import INT32_MAX


class IndexFullError(StratalogError):
    """An index has no room for another entry; a segment is rolled before that happens."""

    def __init__(self, path: str | os.PathLike[str], entry_count: int) -> None:
        self.path = os.fspath(path)
        self.entry_count = entry_count
        super().__init__(
            f"{os.path.basename(self.path)}: full with {entry_count} entries. Roll the segment, or raise "
            "segment.index.bytes."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.entry_count)


class InvalidOffsetError(StratalogError):
    """An offset that is not above the last one in an index. Kafka: InvalidOffsetException."""

    def __init__(self, path: str | os.PathLike[str], offset: int, last_offset: int) -> None:
        self.path = os.fspath(path)
        self.offset = offset
        self.last_offset = last_offset
        super().__init__(
            f"{os.path.basename(self.path)}: offset {offset} cannot follow {last_offset}, the last one that "
            "is indexed. The offsets of the log go backwards here."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.offset, self.last_offset)


class NeedsRecoveryError(StratalogError):
    """A log, or a log directory, that was not shut down cleanly: recover it before it is opened.

    `remedy` says what to do.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        finding: str,
        remedy: str = (
            "The log was not closed cleanly; it must be recovered first: run `stratalog recover` on the log "
            "directory."
        ),
    ) -> None:
        self.path = os.fspath(path)
        self.finding = finding
        self.remedy = remedy
        super().__init__(f"{self.path}: {finding}. {remedy}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.finding, self.remedy)


class OffsetOutOfRangeError(StratalogError, IndexError):
    """The requested offset is before log_start_offset or past log_end_offset; `valid` holds these two."""

    def __init__(self, reason: str, *, offset: int = -1, valid: tuple[int, int] = (-1, -1)) -> None:
        self.offset = offset
        self.valid = valid
        super().__init__(reason)


class PolicyViolationError(StratalogError):
    """The topic's cleanup.policy does not allow what was asked. Kafka: PolicyViolationException."""


class SegmentOffsetOverflowError(StratalogError):
    """An offset too far above its segment's base, or below it. Kafka: LogSegmentOffsetOverflowException."""

    def __init__(self, path: str | os.PathLike[str], base_offset: int, offset: int) -> None:
        self.path = os.fspath(path)
        self.base_offset = base_offset
        self.offset = offset
        super().__init__(
            f"{os.path.basename(self.path)}: offset {offset} is not from {base_offset} to "
            f"{base_offset + INT32_MAX}, which a segment with this base offset can hold."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.base_offset, self.offset)


class LogClosedError(StratalogError, ValueError):
    """A log is used after it was closed: open it again. A ValueError, as Python raises for a closed file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        super().__init__(f"{self.path}: {self._reason()}")

    def _reason(self) -> str:
        return "this log is closed; open it again to use it."

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path,)


class LogDeletedError(LogClosedError):
    """A log is changed after its manager deleted it. It can be read until its files are removed."""

    def _reason(self) -> str:
        return "this log was deleted, so nothing is written to it. Create it again with get_or_create_log."


class LogMovedError(LogClosedError):
    """A log is changed after its manager moved it to `directory`. It can be read until its files are gone."""

    def __init__(self, path: str | os.PathLike[str], directory: str | os.PathLike[str]) -> None:
        self.directory = os.fspath(directory)
        super().__init__(path)

    def _reason(self) -> str:
        return (
            f"this log was moved to {self.directory}, so nothing is written here. Use what get_log returns."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.directory)


class LogChangedError(StratalogError):
    """A log was truncated, or segments of it were deleted, while it was being compacted."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        super().__init__(
            f"{self.path}: the log was truncated, or lost segments to retention, while it was compacted. "
            "The compacted segments were thrown away, and the log is whole: compact it again."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path,)
