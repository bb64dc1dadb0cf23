"""Every error Stratalog raises on purpose.

StratalogError
├── AppendRefusedError               a log refuses this append, and nothing of it was written
│   ├── InvalidProducerEpochError    a newer instance of this producer is known; .producer_id, .producer_epoch
│   ├── InvalidTimestampError        timestamps that the topic does not accept; .record_errors (ValueError)
│   ├── InvalidTxnStateError         a write that does not fit the producer's transaction; .producer_id
│   ├── OffsetsOutOfOrderError       the offsets of a replicated set of batches do not ascend
│   ├── OutOfOrderSequenceError      a batch of this producer is missing before this one; .sequence
│   ├── RecordBatchTooLargeError     a set of batches that no segment can hold; .size, .limit (ValueError)
│   ├── TransactionCoordinatorFencedError  a marker by a coordinator that was replaced; .coordinator_epoch
│   └── UnexpectedAppendOffsetError  a set that starts before the log's end; .first_offset, .last_offset
├── ConfigError                      a setting that Kafka would refuse; .key, .value (ValueError)
├── CorruptRecordError               bytes that no healthy broker wrote; .path, .position
│   ├── InvalidRecordError           the batch is whole (its CRC holds), but a record in it is not valid
│   │   └── RecordValidationError    records that the topic does not accept; .record_errors (ValueError)
│   ├── CorruptCompressionError      a compressed stream that is cut off or damaged, or has a wrong length
│   ├── RecordTooLargeError          more bytes than the caller's limit allows (ValueError)
│   └── UnsupportedCompressionTypeError  codec bits that no Kafka release has given a meaning
├── CorruptCheckpointError           a small text file that cannot be read; .path, .line
│   └── CheckpointNumberError        one field is not a number: a broker treats the file as empty
├── CorruptIndexError                an index that disagrees with its log; recovery rebuilds it; .path
├── CorruptSnapshotError             a producer snapshot that is not valid; an older one is used; .path
├── IndexFullError                   an index with no room for another entry: roll the segment; .path
├── InvalidBatchError                the caller asks to write something that is not valid (ValueError)
├── InvalidNameError                 a file or directory name that no broker accepts; .name (ValueError)
├── LogChangedError                  a log was cut while it was being compacted: compact it again; .path
├── LogClosedError                   a log that was closed is used; .path (ValueError)
│   ├── LogDeletedError              a log that its manager has deleted is changed
│   └── LogMovedError                a log that its manager has moved is changed; .directory
├── LogDirLockedError                the log directory is in use, or its lock was lost; .path
├── EraseProofError                  a file that an erasure wrote is not as it should be; .path
├── DiskError                        the system refused to read or write; .path, .errno (OSError)
│   ├── AccessDeniedError            the system does not allow it (PermissionError)
│   └── NoSuchFileError              the file is not there (FileNotFoundError)
├── FormatRefusedError               a log directory that cannot be formatted, and why; .path, .reason
├── FileOwnerError                   a rewritten file could not keep its owner; .path, .owner, .user
├── InvalidOffsetError               an offset that is not above the last one in an index; .path, .offset
├── NeedsRecoveryError               a log that was not closed cleanly, and what shows it; .path, .finding
├── NotALogDirectoryError            a path that is not a log directory; .path, .reason (ValueError)
│   └── MissingLogDirectoryError     a log directory that does not exist (FileNotFoundError)
├── OtherFileError                   a worker does not see the file that the driver saw; .path, .reason
├── OffsetOutOfRangeError            a read outside of the log; .offset, .valid (IndexError)
├── PolicyViolationError             the topic's cleanup.policy does not allow it
├── PreconditionError                a file is not as the plan found it; .path, .expected, .found
├── QuarantineError                  bytes to cut off cannot be kept, or kept bytes cannot be restored; .path
│   └── QuarantineFullError          no room for the bytes to be cut off, so nothing was cut; .needed, .free
├── SegmentOffsetOverflowError       an offset too far from its segment's base; .base_offset, .offset
├── TwoNodesError                    log directories that do not all belong to one node
├── UnusableSegmentError             a .log file that no broker could load; .path, .reason
├── WorkerError                      a task of a cluster failed; the log that it worked on is unchanged
├── WrongProcessError                a forked child changes what its parent has open; .path, .opener, .pid
├── MissingDependencyError           an optional package is not installed (ImportError)
└── UsageError                       arguments that contradict each other or name nothing (ValueError)
    ├── MissingPathError             a path that the caller named does not exist; .path (FileNotFoundError)
    ├── SchemaError                  a schema that is not valid, or that cannot become a column
    └── WrongTypeError               an argument of the wrong type (TypeError)

Facts are attributes, so that a caller need not parse a message. The name in parentheses is a Python error of
which this error and all below it are subclasses, so that `except ValueError` or `except OSError` catches
them.

appends  appends that a log refuses
damage   bytes that no healthy broker wrote
files    files and directories: refused by the system, in use, of another owner
logs     a log or a segment that cannot do what the caller asks
root     `StratalogError`, and errors of the caller: settings, names, arguments

Not here: warnings and findings, which are values of reports.
"""

from __future__ import annotations

from stratalog.errors.appends import (
    AppendRefusedError,
    InvalidBatchError,
    InvalidProducerEpochError,
    InvalidTimestampError,
    InvalidTxnStateError,
    OffsetsOutOfOrderError,
    OutOfOrderSequenceError,
    RecordBatchTooLargeError,
    RecordError,
    TransactionCoordinatorFencedError,
    UnexpectedAppendOffsetError,
)
from stratalog.errors.damage import (
    CheckpointNumberError,
    CorruptCheckpointError,
    CorruptCompressionError,
    CorruptIndexError,
    CorruptRecordError,
    CorruptSnapshotError,
    InvalidRecordError,
    RecordTooLargeError,
    RecordValidationError,
    UnsupportedCompressionTypeError,
    UnusableSegmentError,
)
from stratalog.errors.files import (
    AccessDeniedError,
    DiskError,
    EraseProofError,
    FileOwnerError,
    FormatRefusedError,
    LogDirLockedError,
    MissingLogDirectoryError,
    NoSuchFileError,
    NotALogDirectoryError,
    OtherFileError,
    PreconditionError,
    QuarantineError,
    QuarantineFullError,
    TwoNodesError,
    WorkerError,
    WrongProcessError,
)
from stratalog.errors.logs import (
    IndexFullError,
    InvalidOffsetError,
    LogChangedError,
    LogClosedError,
    LogDeletedError,
    LogMovedError,
    NeedsRecoveryError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    SegmentOffsetOverflowError,
)
from stratalog.errors.root import (
    ConfigError,
    InvalidNameError,
    MissingDependencyError,
    MissingPathError,
    SchemaError,
    StratalogError,
    UsageError,
    WrongTypeError,
)

__all__ = [
    "AccessDeniedError",
    "AppendRefusedError",
    "CheckpointNumberError",
    "ConfigError",
    "CorruptCheckpointError",
    "CorruptCompressionError",
    "CorruptIndexError",
    "CorruptRecordError",
    "CorruptSnapshotError",
    "DiskError",
    "EraseProofError",
    "FileOwnerError",
    "FormatRefusedError",
    "IndexFullError",
    "InvalidBatchError",
    "InvalidNameError",
    "InvalidOffsetError",
    "InvalidProducerEpochError",
    "InvalidRecordError",
    "InvalidTimestampError",
    "InvalidTxnStateError",
    "LogChangedError",
    "LogClosedError",
    "LogDeletedError",
    "LogDirLockedError",
    "LogMovedError",
    "MissingDependencyError",
    "MissingLogDirectoryError",
    "MissingPathError",
    "NeedsRecoveryError",
    "NoSuchFileError",
    "NotALogDirectoryError",
    "OffsetOutOfRangeError",
    "OffsetsOutOfOrderError",
    "OtherFileError",
    "OutOfOrderSequenceError",
    "PolicyViolationError",
    "PreconditionError",
    "QuarantineError",
    "QuarantineFullError",
    "RecordBatchTooLargeError",
    "RecordError",
    "RecordTooLargeError",
    "RecordValidationError",
    "SchemaError",
    "SegmentOffsetOverflowError",
    "StratalogError",
    "TransactionCoordinatorFencedError",
    "TwoNodesError",
    "UnexpectedAppendOffsetError",
    "UnsupportedCompressionTypeError",
    "UnusableSegmentError",
    "UsageError",
    "WorkerError",
    "WrongProcessError",
    "WrongTypeError",
]
