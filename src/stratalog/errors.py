"""Every error Stratalog raises on purpose.

StratalogError
├── CorruptRecordError               bytes that no healthy broker wrote; .path, .position
│   ├── InvalidRecordError           the batch is whole (its CRC holds), but what is inside it is not
│   ├── CorruptCompressionError      a compressed stream that lies about itself or is cut off
│   ├── RecordTooLargeError          more bytes than the caller's limit allows
│   └── UnsupportedCompressionTypeError  codec bits that no Kafka release has given a meaning
├── InvalidBatchError                what the caller asked to be written cannot be written
├── InvalidNameError                 a file or directory name that no broker accepts; .name
├── DiskError                        the system refused to read or write; .path
├── MissingDependencyError           an optional part (pyspark, Java) is not here, and how to get it
└── UsageError                       arguments that contradict each other or name nothing

Facts are attributes, so that nobody has to parse a message.
"""

from __future__ import annotations

import os


class StratalogError(Exception):
    """The root: whoever catches this catches everything Stratalog raises on purpose."""


class CorruptRecordError(StratalogError):
    """Bytes that no healthy broker wrote.

    `position` is the byte in the file, or in the buffer where no file is known, at which the batch
    starts that could not be read. `reason` is the sentence without the place.
    """

    def __init__(self, reason: str, *, position: int = 0, path: str | os.PathLike[str] | None = None) -> None:
        self.reason = reason
        self.position = position
        self.path = None if path is None else os.fspath(path)
        where = "buffer" if self.path is None else os.path.basename(self.path)
        super().__init__(f"{where} at byte {position}: {reason}")

    def at(self, *, position: int, path: str | os.PathLike[str] | None = None) -> CorruptRecordError:
        """The same finding, told with the place that only the caller knows."""
        return type(self)(self.reason, position=position, path=path if path is not None else self.path)

    def __reduce__(self) -> tuple[object, ...]:
        # Spark sends exceptions between processes; the default would call __init__ without keywords.
        return _rebuild, (type(self), self.reason, self.position, self.path)


def _rebuild(kind: type[CorruptRecordError], reason: str, position: int, path: str | None) -> CorruptRecordError:
    return kind(reason, position=position, path=path)


class InvalidRecordError(CorruptRecordError):
    """The batch is whole, but a record in it contradicts itself. Kafka: InvalidRecordException."""


class CorruptCompressionError(CorruptRecordError):
    """A compressed stream that is cut off, damaged, or lies about its length."""


class RecordTooLargeError(CorruptRecordError):
    """A batch or stream is larger than the caller's limit: raise the limit if the data is trusted."""


class UnsupportedCompressionTypeError(CorruptRecordError):
    """Codec bits 5 to 7: no Kafka release has given them a meaning."""


class InvalidBatchError(StratalogError):
    """What the caller asked to be written is refused; the message names the field and its bounds."""


class InvalidNameError(StratalogError):
    """A file or directory name that no broker accepts."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        super().__init__(f"{name!r}: {reason}")


class DiskError(StratalogError):
    """The system refused to read or write a file."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        self.path = os.fspath(path)
        super().__init__(f"{self.path}: {reason}")


class MissingDependencyError(StratalogError):
    """An optional part is not installed; the message says how to get it."""


class UsageError(StratalogError):
    """Arguments that contradict each other or name nothing."""
