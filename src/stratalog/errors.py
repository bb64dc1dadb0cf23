"""Every error Stratalog raises on purpose.

StratalogError
├── AppendRefusedError               a log does not take this append, and nothing of it was written
│   ├── InvalidProducerEpochError    a newer instance of this producer is known; .producer_id, .producer_epoch
│   ├── InvalidTimestampError        timestamps that the topic does not take; .record_errors
│   ├── InvalidTxnStateError         a write that does not fit the producer's transaction; .producer_id
│   ├── OffsetsOutOfOrderError       the offsets of a replicated set do not ascend
│   ├── OutOfOrderSequenceError      a batch of this producer is missing before this one; .sequence
│   ├── RecordBatchTooLargeError     a set that no segment can hold; .size, .limit
│   ├── TransactionCoordinatorFencedError  a marker by a coordinator that was replaced; .coordinator_epoch
│   └── UnexpectedAppendOffsetError  a replicated set before the log's end; .first_offset, .last_offset
├── ConfigError                      a setting that Kafka would refuse; .key, .value
├── CorruptRecordError               bytes that no healthy broker wrote; .path, .position
│   ├── InvalidRecordError           the batch is whole (its CRC holds), but what is inside it is not
│   │   └── RecordValidationError    records that the topic does not take; .record_errors
│   ├── CorruptCompressionError      a compressed stream that lies about itself or is cut off
│   ├── RecordTooLargeError          more bytes than the caller's limit allows
│   └── UnsupportedCompressionTypeError  codec bits that no Kafka release has given a meaning
├── CorruptCheckpointError           a small text file that cannot be read; .path, .line
│   └── CheckpointNumberError        only a number in one of its lines is none: a broker starts from 0
├── CorruptIndexError                an index that disagrees with its log; recovery rebuilds it; .path
├── CorruptSnapshotError             a producer snapshot that cannot be believed; an older one is used; .path
├── IndexFullError                   an index with no room for another entry: roll the segment; .path
├── InvalidBatchError                what the caller asked to be written cannot be written
├── InvalidNameError                 a file or directory name that no broker accepts; .name
├── LogChangedError                  a log was cut while it was being compacted: compact it again; .path
├── LogClosedError                   a log that was closed is used; .path
│   ├── LogDeletedError              a log that its manager has deleted is changed
│   └── LogMovedError                a log that its manager has moved is changed; .directory
├── LogDirLockedError                another process holds the log directory; .path
├── EraseProofError                  what an erasure wrote is not what should be left; .path
├── DiskError                        the system refused to read or write; .path, .errno
├── FileOwnerError                   what would be written here could not keep its owner; .path, .owner, .user
├── InvalidOffsetError               an offset that does not ascend where offsets must; .path, .offset
├── NeedsRecoveryError               a log that was not closed cleanly, and what shows it; .path, .finding
├── NotALogDirectoryError            a path that is not a log directory, so nothing is changed; .path, .reason
├── OffsetOutOfRangeError            asked before the log's start or past its end; .offset, .valid
├── PolicyViolationError             the topic's cleanup.policy does not allow it
├── PreconditionError                a file is not as the plan found it; .path, .expected, .found
├── QuarantineError                  what was cut off cannot be kept, or not be brought back; .path
│   └── QuarantineFullError          no room for what is to be cut off, so nothing was; .needed, .free
├── SegmentOffsetOverflowError       an offset too far from its segment's base; .base_offset, .offset
├── UnusableSegmentError             a .log file that no broker could load; .path, .reason
├── WrongProcessError                a forked child changes what its parent has open; .path, .opener, .pid
├── MissingDependencyError           an optional part (pyspark, Java) is not here, and how to get it
└── UsageError                       arguments that contradict each other or name nothing

Facts are attributes, so that nobody has to parse a message.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from stratalog.limits import INT32_MAX


class StratalogError(Exception):
    """The root: whoever catches this catches everything Stratalog raises on purpose."""


class RecordError(NamedTuple):
    """What is wrong with one record of a batch; `batch_index` counts from 0 within the batch."""

    batch_index: int
    reason: str


class AppendRefusedError(StratalogError):
    """A log does not take this append: nothing of it was written."""


class InvalidProducerEpochError(AppendRefusedError):
    """A newer instance of the producer has fenced this one. Kafka: InvalidProducerEpochException."""

    def __init__(
        self, reason: str, *, producer_id: int = -1, producer_epoch: int = -1, current_epoch: int = -1
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.current_epoch = current_epoch
        super().__init__(reason)


class InvalidTimestampError(AppendRefusedError):
    """Timestamps that the topic does not take. Kafka: InvalidTimestampException."""

    def __init__(self, reason: str, *, record_errors: tuple[RecordError, ...] = ()) -> None:
        self.record_errors = record_errors
        super().__init__(reason)


class InvalidTxnStateError(AppendRefusedError):
    """A write that does not fit the state of the producer's transaction. Kafka: InvalidTxnStateException."""

    def __init__(self, reason: str, *, producer_id: int = -1) -> None:
        self.producer_id = producer_id
        super().__init__(reason)


class OffsetsOutOfOrderError(AppendRefusedError):
    """The offsets of a set that brings its own do not ascend. Kafka: OffsetsOutOfOrderException."""


class OutOfOrderSequenceError(AppendRefusedError):
    """The batch before this one never came. Kafka: OutOfOrderSequenceException."""

    def __init__(self, reason: str, *, producer_id: int = -1, sequence: int = -1) -> None:
        self.producer_id = producer_id
        self.sequence = sequence
        super().__init__(reason)


class RecordBatchTooLargeError(AppendRefusedError):
    """A set of batches is larger than a whole segment may be. Kafka: RecordBatchTooLargeException."""

    def __init__(self, reason: str, *, size: int = -1, limit: int = -1) -> None:
        self.size = size
        self.limit = limit
        super().__init__(reason)


class TransactionCoordinatorFencedError(AppendRefusedError):
    """A transaction marker by a coordinator that another one has replaced since."""

    def __init__(
        self, reason: str, *, producer_id: int = -1, coordinator_epoch: int = -1, current_epoch: int = -1
    ) -> None:
        self.producer_id = producer_id
        self.coordinator_epoch = coordinator_epoch
        self.current_epoch = current_epoch
        super().__init__(reason)


class UnexpectedAppendOffsetError(AppendRefusedError):
    """A set that brings its own offsets starts before the log's end."""

    def __init__(self, reason: str, *, first_offset: int = -1, last_offset: int = -1) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        super().__init__(reason)


class ConfigError(StratalogError):
    """A setting that Kafka would refuse; `key` is Kafka's name for it."""

    def __init__(self, key: str, value: object, reason: str) -> None:
        self.key = key
        self.value = value
        self.reason = reason
        super().__init__(f"{key} = {value}: {reason}.")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.key, self.value, self.reason)


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


def _rebuild(
    kind: type[CorruptRecordError], reason: str, position: int, path: str | None
) -> CorruptRecordError:
    return kind(reason, position=position, path=path)


class InvalidRecordError(CorruptRecordError):
    """The batch is whole, but a record in it contradicts itself. Kafka: InvalidRecordException."""


class RecordValidationError(InvalidRecordError):
    """Records that are well formed but not what the topic takes; each is named in `record_errors`."""

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
    """A compressed stream that is cut off, damaged, or lies about its length."""


class RecordTooLargeError(CorruptRecordError):
    """A batch or stream is larger than the caller's limit: raise the limit if the data is trusted."""


class UnsupportedCompressionTypeError(CorruptRecordError):
    """Codec bits 5 to 7: no Kafka release has given them a meaning."""


class CorruptCheckpointError(StratalogError):
    """A small text file that cannot be read; `line` counts from 1, and is 0 where no line is to blame."""

    def __init__(self, path: str | os.PathLike[str], line: int, reason: str) -> None:
        self.path = os.fspath(path)
        self.line = line
        self.reason = reason
        super().__init__(f"{self.path}{f', line {line}' if line else ''}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.line, self.reason)


class CheckpointNumberError(CorruptCheckpointError):
    """A line has its fields, but one of them is no number.

    A broker forgives that in an offset checkpoint and goes on as if the file were empty; every other damage
    to such a file takes its whole directory offline.
    """


class CorruptIndexError(StratalogError):
    """An index that disagrees with its log, or with itself: recovery rebuilds it from the log."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        self.path = os.fspath(path)
        self.reason = reason
        super().__init__(f"{os.path.basename(self.path)}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.reason)


class CorruptSnapshotError(StratalogError):
    """A producer snapshot that cannot be believed: delete it, an older one or the log says the same."""

    def __init__(self, reason: str, path: str | os.PathLike[str] | None = None) -> None:
        self.reason = reason
        self.path = None if path is None else os.fspath(path)
        super().__init__(reason if self.path is None else f"{self.path}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.reason, self.path)


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


class InvalidBatchError(StratalogError):
    """What the caller asked to be written is refused; the message names the field and its bounds."""


class InvalidNameError(StratalogError):
    """A file or directory name that no broker accepts."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"{name!r}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.name, self.reason)


class DiskError(StratalogError):
    """The system refused to read or write a file. `errno` is the system's number, 0 where it gave none."""

    def __init__(self, path: str | os.PathLike[str], reason: str, errno: int = 0) -> None:
        self.path = os.fspath(path)
        self.reason = reason
        self.errno = errno
        super().__init__(f"{self.path}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.reason, self.errno)


class EraseProofError(StratalogError):
    """What an erasure has written, read back, is not what was there less what was to go. Nothing is lost."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        self.path = os.fspath(path)
        self.reason = reason
        super().__init__(
            f"{self.path}: {reason} It was written by an erasure, and what it was made from is still there. "
            "Check the disk and its memory, then run again."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.reason)


class FileOwnerError(StratalogError):
    """A file belongs to somebody else, and would be this user's if it were written anew."""

    def __init__(self, path: str | os.PathLike[str], owner: int, user: int) -> None:
        self.path = os.fspath(path)
        self.owner = owner
        self.user = user
        super().__init__(
            f"{self.path}: it belongs to user {owner}, and what user {user} writes here would not, so "
            "that the broker might be shut out. Nothing was changed. Run as root, which keeps owners, or as "
            "the broker's user if all files are theirs."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.owner, self.user)


class InvalidOffsetError(StratalogError):
    """An offset that does not ascend where offsets must. Kafka: InvalidOffsetException."""

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
    """A log, or a log directory, that was not shut down cleanly: opening it would guess, recovery does not.

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


class NotALogDirectoryError(StratalogError):
    """A path that is not a log directory: nothing was changed there. `reason` names the likely mistake."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        self.path = os.fspath(path)
        self.reason = reason
        super().__init__(f"{self.path} is not a log directory: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.reason)


class OffsetOutOfRangeError(StratalogError):
    """Asked for an offset before log_start_offset or past log_end_offset; `valid` holds the two."""

    def __init__(self, reason: str, *, offset: int = -1, valid: tuple[int, int] = (-1, -1)) -> None:
        self.offset = offset
        self.valid = valid
        super().__init__(reason)


class PolicyViolationError(StratalogError):
    """The topic's cleanup.policy does not allow what was asked. Kafka: PolicyViolationException."""


class PreconditionError(StratalogError):
    """A file is not as it was when the plan was made: someone else is at work in the directory.

    `expected` and `found` say how it should be and how it is, as text.
    """

    def __init__(self, path: str | os.PathLike[str], expected: str, found: str) -> None:
        self.path = os.fspath(path)
        self.expected = expected
        self.found = found
        super().__init__(
            f"{self.path}: expected {expected}, found {found}. Something else changes this directory; "
            "nothing more was done. Make sure that no broker or tool uses it, then run again."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.expected, self.found)


class QuarantineError(StratalogError):
    """What was cut off cannot be kept, or what was kept cannot be brought back."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        self.path = os.fspath(path)
        self.reason = reason
        super().__init__(f"{self.path}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.reason)


class QuarantineFullError(QuarantineError):
    """No room to keep what is to be cut off. Raised before the cut."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        needed: int,
        free: int,
        advice: str = "name a directory on another disk with --quarantine, or give up these bytes with "
        "--no-quarantine.",
    ) -> None:
        self.needed = needed
        self.free = free
        self.advice = advice
        super().__init__(
            path,
            f"{needed} bytes are to be kept in quarantine before they are cut off, and {free} are free here. "
            f"Nothing was cut. Free some space, {advice}",
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.needed, self.free, self.advice)


class SegmentOffsetOverflowError(StratalogError):
    """An offset too far from its segment's base, or below it. Kafka: LogSegmentOffsetOverflowException."""

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


class LogClosedError(StratalogError):
    """A log is used after it was closed: open it again."""

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


class LogDirLockedError(StratalogError):
    """Another process, a broker most likely, holds the log directory."""

    def __init__(self, path: str | os.PathLike[str], reason: str = "") -> None:
        self.path = os.fspath(path)
        self.reason = reason or "a broker or another tool is using this directory: stop it, then run again."
        super().__init__(f"{self.path}: {self.reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.reason)


class UnusableSegmentError(StratalogError):
    """A .log file that no broker could load, or that is not touched here: the partition is left as it is."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        self.path = os.fspath(path)
        self.reason = reason
        super().__init__(f"{self.path}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.reason)


class WrongProcessError(StratalogError):
    """A forked child would change what its parent has open; `opener` is the parent's process id."""

    def __init__(self, path: str | os.PathLike[str], opener: int, pid: int) -> None:
        self.path = os.fspath(path)
        self.opener = opener
        self.pid = pid
        super().__init__(
            f"{self.path}: process {opener} has this open, and process {pid}, which was forked from it, may "
            "not change it: they would overwrite each other's records. Reading works. Let the process write "
            "that opened the log, or open it after the fork, in the one process that writes."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.opener, self.pid)


class MissingDependencyError(StratalogError):
    """An optional part is not installed; the message says how to get it."""


class UsageError(StratalogError):
    """Arguments that contradict each other or name nothing."""
