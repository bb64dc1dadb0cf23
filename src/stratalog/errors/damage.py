"""Bytes that no healthy broker wrote, in logs, indexes, snapshots and checkpoints."""

from __future__ import annotations

import os

from stratalog.errors.appends import RecordError
from stratalog.errors.root import StratalogError, _PathError


class CorruptRecordError(StratalogError):
    """Bytes that no healthy broker wrote.

    `position` is the byte at which the unreadable batch starts: in the file, or in the buffer if no file is
    known. `reason` is the message without the place.
    """

    def __init__(self, reason: str, *, position: int = 0, path: str | os.PathLike[str] | None = None) -> None:
        self.reason = reason
        self.position = position
        self.path = None if path is None else os.fspath(path)
        where = "buffer" if self.path is None else os.path.basename(self.path)
        super().__init__(f"{where} at byte {position}: {reason}")

    def at(self, *, position: int, path: str | os.PathLike[str] | None = None) -> CorruptRecordError:
        """The same error with path and position, which only the caller knows."""
        return type(self)(self.reason, position=position, path=path if path is not None else self.path)

    def __reduce__(self) -> tuple[object, ...]:
        # Spark pickles exceptions to send them between processes. Unpickling would by default call __init__
        # without the keyword arguments.
        return _rebuild, (type(self), self.reason, self.position, self.path)


def _rebuild(
    kind: type[CorruptRecordError], reason: str, position: int, path: str | None
) -> CorruptRecordError:
    return kind(reason, position=position, path=path)


class InvalidRecordError(CorruptRecordError):
    """The batch is whole, but a record in it contradicts itself. Kafka: InvalidRecordException."""


class RecordValidationError(InvalidRecordError, ValueError):
    """Records that are well formed, but that the topic does not accept; `record_errors` lists them."""

    def __init__(
        self,
        reason: str,
        *,
        position: int = 0,
        path: str | os.PathLike[str] | None = None,
        record_errors: tuple[RecordError, ...] = (),
    ) -> None:
        self.record_errors = record_errors
        super().__init__(reason, position=position, path=path)

    def __reduce__(self) -> tuple[object, ...]:
        return *super().__reduce__(), {"record_errors": self.record_errors}


class CorruptCompressionError(CorruptRecordError):
    """A compressed stream that is cut off or damaged, or whose length is not the stated one."""


class RecordTooLargeError(CorruptRecordError, ValueError):
    """A batch or stream is larger than the caller's limit: raise the limit if the data is trusted."""


class UnsupportedCompressionTypeError(CorruptRecordError):
    """Codec bits 5 to 7: no Kafka release has given them a meaning."""


class CorruptCheckpointError(StratalogError):
    """A small text file that cannot be read.

    `line` counts from 1, and is 0 if the error is not in one line.
    """

    def __init__(self, path: str | os.PathLike[str], line: int, reason: str) -> None:
        self.path = os.fspath(path)
        self.line = line
        self.reason = reason
        super().__init__(f"{self.path}{f', line {line}' if line else ''}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.line, self.reason)


class CheckpointNumberError(CorruptCheckpointError):
    """A line has all its fields, but one of them is not a number.

    A broker tolerates that in an offset checkpoint and treats the file as empty. Any other damage to such a
    file takes its whole directory offline.
    """


class CorruptIndexError(_PathError):
    """An index that contradicts its log or itself: recovery rebuilds it from the log."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(path, reason, f"{os.path.basename(path)}: {reason}")


class CorruptSnapshotError(StratalogError):
    """A producer snapshot that is not valid: delete it; an older snapshot or the log has the same facts."""

    def __init__(self, reason: str, path: str | os.PathLike[str] | None = None) -> None:
        self.reason = reason
        self.path = None if path is None else os.fspath(path)
        super().__init__(reason if self.path is None else f"{self.path}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.reason, self.path)


class UnusableSegmentError(_PathError):
    """A .log file that no broker could load, or that is not supported here: the partition stays as it is."""
