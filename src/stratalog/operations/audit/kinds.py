"""Every kind of finding of an audit: its severity, its consequence, and what to do.

`docs/audit.md` lists the same kinds, with their severity and meaning; a test compares the two.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Severity(Enum):
    """How bad a finding is. A note does not count as a finding: the directory is still healthy."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class AuditRule(NamedTuple):
    """The facts of all findings of a kind. `remedy` may contain {directory}."""

    severity: Severity
    consequence: str
    remedy: str


_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

_FETCH_AGAIN = (
    "If another replica has the records: stop the broker, move the partition's directory away, start the "
    "broker. If this is the last copy: `stratalog recover --all --salvage {directory}`."
)
_FROM_A_REPLICA = (
    "If another replica has the records: stop the broker, move the partition's directory away, start the "
    "broker. If this is the last copy, leave it as it is: a recovery cannot repair it."
)
_RECOVER_ALL = "Stop the broker and run `stratalog recover --all {directory}`."
_CUT_OFF = (
    "Run `stratalog recover --all {directory}` before the broker starts. Without --all, a directory that was "
    "shut down cleanly is left as it is."
)
_INDEX = "Stop the broker and run `stratalog index {directory}`, which rebuilds the file."
_REPORT_GONE = (
    "Stop the broker and run `stratalog recover --all {directory}`, which reports the records that are gone."
)
_REBUILD = "Stop the broker and run `stratalog recover --all {directory}`, which rebuilds the file."
_NOTHING = "Nothing to do."
_WRONG_OFFSETS = (
    "Its base offset, which no checksum covers, is probably damaged. Consumers get its records with wrong "
    "offsets, and may skip the batches after it."
)
_MAY_BE_GONE = (
    "Records up to this offset may be gone: a power cut can take the end of a log, and leave that of its "
    "index. But if a broker had truncated the log, as a follower does, only old entries are left."
)
_UNREADABLE_FROM_HERE = "A consumer that reaches it gets an error and cannot go on."


class AuditKind(Enum):
    """The kind of a finding; the value is the word for JSON and tables."""

    WRONG_CRC = "wrong-crc"
    BAD_LENGTH = "bad-length"
    BAD_MAGIC = "bad-magic"
    ZEROS = "zeros"
    TORN_TAIL = "torn-tail"
    INVALID_RECORDS = "invalid-records"
    INVALID_MARKER = "invalid-marker"
    RECORDS_COUNT = "records-count"
    OFFSET_BACKWARDS = "offset-backwards"
    OFFSET_AHEAD = "offset-ahead"
    OFFSET_FAR_AHEAD = "offset-far-ahead"
    OFFSET_OUTSIDE = "offset-outside"
    OFFSET_OVERFLOW = "offset-overflow"
    LOST_OFFSETS = "lost-offsets"
    LOST_PARTITION = "lost-partition"
    EPOCH_BACKWARDS = "epoch-backwards"
    FUTURE_TIMESTAMP = "future-timestamp"
    BACKWARD_TIMESTAMP = "backward-timestamp"
    UNDECODABLE_RECORD = "undecodable-record"

    MISSING_INDEX = "missing-index"
    UNREADABLE_INDEX = "unreadable-index"
    INDEX_ENTRY = "index-entry"
    INDEX_PAST_END = "index-past-end"
    MISSING_TIME_INDEX = "missing-time-index"
    UNREADABLE_TIME_INDEX = "unreadable-time-index"
    TIME_INDEX_ENTRY = "time-index-entry"
    TIME_INDEX_END = "time-index-end"
    TIME_INDEX_PAST_END = "time-index-past-end"
    UNREADABLE_TXN_INDEX = "unreadable-txn-index"
    TORN_TXN_INDEX = "torn-txn-index"
    TXN_INDEX_ENTRY = "txn-index-entry"
    MISSING_ABORT = "missing-abort"
    ORPHAN_INDEX = "orphan-index"

    UNREADABLE_SNAPSHOT = "unreadable-snapshot"
    WRONG_SNAPSHOT = "wrong-snapshot"
    TXN_CONTRADICTION = "transaction-contradiction"
    HANGING_TRANSACTION = "hanging-transaction"

    WRONG_LEADER_EPOCH = "wrong-leader-epoch"
    WRONG_TOPIC_ID = "wrong-topic-id"
    MISSING_TOPIC_ID = "missing-topic-id"
    UNKNOWN_PARTITION = "unknown-partition"

    UNREADABLE_CHECKPOINT = "unreadable-checkpoint"
    START_PAST_END = "start-past-end"
    CHECKPOINT_PAST_END = "checkpoint-past-end"

    WILL_NOT_START = "will-not-start"
    STRAY = "stray"
    TEMPORARY_FILE = "temporary-file"
    FOREIGN_FILE = "foreign-file"
    WAITING_FILE = "waiting-file"
    NOT_CLEAN = "not-clean"
    GAP = "gap"
    UNREADABLE = "unreadable"

    @property
    def rule(self) -> AuditRule:
        return RULES[self]

    @property
    def is_for_index(self) -> bool:
        """Whether `stratalog index` repairs it."""
        return self.rule.remedy is _INDEX


_KIND = AuditKind

RULES: dict[AuditKind, AuditRule] = {
    _KIND.WRONG_CRC: AuditRule(_ERROR, _UNREADABLE_FROM_HERE, _FETCH_AGAIN),
    _KIND.BAD_LENGTH: AuditRule(
        _ERROR, "No reader finds the next batch. A broker that recovers this log cuts it here.", _FETCH_AGAIN
    ),
    _KIND.BAD_MAGIC: AuditRule(
        _ERROR, "No reader gets past it. A broker that recovers this log cuts it here.", _FETCH_AGAIN
    ),
    _KIND.ZEROS: AuditRule(
        _WARNING,
        "A power cut or preallocation leaves this. After an unclean shutdown a broker cuts it off.",
        _CUT_OFF,
    ),
    _KIND.TORN_TAIL: AuditRule(
        _WARNING,
        "A crash leaves this: the last write is not whole. After an unclean shutdown a broker cuts it off. "
        "After a clean shutdown it appends new records after the torn batch, and no reader gets to them.",
        _CUT_OFF,
    ),
    _KIND.INVALID_RECORDS: AuditRule(
        _ERROR,
        "The checksum is right, so it may have been sent like this. A consumer cannot read these records.",
        "Let consumers seek past these offsets; look for the producer that sent them.",
    ),
    _KIND.INVALID_MARKER: AuditRule(
        _ERROR, "A broker that recovers this log cuts it after this batch.", _FETCH_AGAIN
    ),
    _KIND.RECORDS_COUNT: AuditRule(
        _ERROR,
        "The header counts more records than it has offsets for. Consumers reject the batch.",
        _FROM_A_REPLICA,
    ),
    _KIND.OFFSET_BACKWARDS: AuditRule(
        _ERROR,
        "Consumers read records twice, or skip some. A recovery may cut the log here.",
        _FROM_A_REPLICA,
    ),
    _KIND.OFFSET_AHEAD: AuditRule(_ERROR, _WRONG_OFFSETS, _FROM_A_REPLICA),
    _KIND.OFFSET_FAR_AHEAD: AuditRule(_ERROR, _WRONG_OFFSETS, _FETCH_AGAIN),
    _KIND.OFFSET_OUTSIDE: AuditRule(
        _ERROR,
        "Records of this batch are never found: their offsets belong to another segment.",
        _FROM_A_REPLICA,
    ),
    _KIND.OFFSET_OVERFLOW: AuditRule(
        _WARNING,
        "The indexes cannot name this offset. A broker splits the segment when it starts.",
        _RECOVER_ALL,
    ),
    _KIND.LOST_OFFSETS: AuditRule(
        _ERROR,
        "Records are missing here, and neither compaction nor deletion explains it.",
        "Compare with another replica. The offsets stay missing: followers do not fill a gap.",
    ),
    _KIND.LOST_PARTITION: AuditRule(
        _ERROR,
        "A broker begins the log again, without its records. If this replica is then elected as leader, its "
        "followers delete their records too.",
        "Before the broker starts, restore the directory from a backup, or make sure that another "
        "replica leads the partition: the broker then fetches the records from there.",
    ),
    _KIND.EPOCH_BACKWARDS: AuditRule(_ERROR, "Followers may truncate to a wrong offset.", _FROM_A_REPLICA),
    _KIND.FUTURE_TIMESTAMP: AuditRule(
        _WARNING,
        "Retention by time keeps this segment, and all later ones, until retention.ms after that time.",
        "Look for the producer that sends such times (microseconds?); set retention.bytes, or "
        "message.timestamp.after.max.ms so that a broker refuses them.",
    ),
    _KIND.BACKWARD_TIMESTAMP: AuditRule(
        _NOTE, "Old records in a new segment stay as long as its newest record.", _NOTHING
    ),
    _KIND.UNDECODABLE_RECORD: AuditRule(
        _WARNING,
        "A broker may ignore this record of an internal topic, or fail to load the partition.",
        "Look at it with `stratalog dump`.",
    ),
    _KIND.MISSING_INDEX: AuditRule(
        _WARNING, "A broker recovers the whole segment at its next start to rebuild the index.", _INDEX
    ),
    _KIND.UNREADABLE_INDEX: AuditRule(
        _ERROR, "A broker may read from a wrong place, and fail to find offsets that exist.", _INDEX
    ),
    _KIND.INDEX_ENTRY: AuditRule(
        _ERROR, "A read near this offset begins at a wrong byte: it fails, or skips records.", _INDEX
    ),
    _KIND.INDEX_PAST_END: AuditRule(
        _ERROR, _MAY_BE_GONE, f"{_REPORT_GONE} Keep its report: it also rebuilds the file."
    ),
    _KIND.MISSING_TIME_INDEX: AuditRule(
        _WARNING, "Look-ups by time and retention treat the segment as if it had no timestamps.", _INDEX
    ),
    _KIND.UNREADABLE_TIME_INDEX: AuditRule(
        _ERROR, "A broker rebuilds it, or look-ups by time and retention are wrong.", _INDEX
    ),
    _KIND.TIME_INDEX_ENTRY: AuditRule(_ERROR, "Look-ups by time skip records, or return too many.", _INDEX),
    _KIND.TIME_INDEX_END: AuditRule(_WARNING, "Retention by time may delete the segment too early.", _INDEX),
    _KIND.TIME_INDEX_PAST_END: AuditRule(
        _ERROR,
        _MAY_BE_GONE,
        f"{_REPORT_GONE} If the entry is still there, run `stratalog index {{directory}}` afterwards, which "
        "rebuilds the file.",
    ),
    _KIND.UNREADABLE_TXN_INDEX: AuditRule(
        _ERROR, "Consumers with read_committed get errors, or see aborted records.", _INDEX
    ),
    _KIND.TORN_TXN_INDEX: AuditRule(
        _ERROR,
        "Consumers with read_committed see the records of the aborted transaction whose entry is torn. A "
        "broker appends after the torn bytes, so it also misreads every later entry.",
        _REBUILD,
    ),
    _KIND.TXN_INDEX_ENTRY: AuditRule(
        _ERROR, "Consumers with read_committed skip committed records, or see aborted ones.", _INDEX
    ),
    _KIND.MISSING_ABORT: AuditRule(
        _ERROR, "Consumers with read_committed see the records of an aborted transaction.", _INDEX
    ),
    _KIND.ORPHAN_INDEX: AuditRule(
        _WARNING,
        "The log of the segment may be lost, with all its records. A broker deletes the index at its next "
        "start, and then nothing shows that there was one.",
        _REPORT_GONE,
    ),
    _KIND.UNREADABLE_SNAPSHOT: AuditRule(
        _WARNING, "A broker deletes it and reads the log again for the state of producers.", _RECOVER_ALL
    ),
    _KIND.WRONG_SNAPSHOT: AuditRule(
        _ERROR,
        "After a restart a broker may accept a duplicate, or refuse a producer's next batch.",
        "Stop the broker, delete the snapshot, and run `stratalog recover --all {directory}`.",
    ),
    _KIND.TXN_CONTRADICTION: AuditRule(
        _ERROR,
        "A broker refuses to load this log.",
        _FETCH_AGAIN,
    ),
    _KIND.HANGING_TRANSACTION: AuditRule(
        _WARNING,
        "Consumers with read_committed do not get past its first record, and compaction stops there.",
        "Find it with `kafka-transactions.sh find-hanging`, and end it with `kafka-transactions.sh abort`.",
    ),
    _KIND.WRONG_LEADER_EPOCH: AuditRule(
        _ERROR, "A follower that asks where this epoch ended truncates to a wrong offset.", _REBUILD
    ),
    _KIND.WRONG_TOPIC_ID: AuditRule(
        _ERROR,
        "A broker sets the partition aside as stray; if the id is that of another topic of the broker, it "
        "serves no partition at all.",
        "Find out whose records the folder has. `stratalog doctor {directory}` says what to do in each case.",
    ),
    _KIND.MISSING_TOPIC_ID: AuditRule(
        _WARNING,
        "A broker renames the directory to -stray and does not serve it, although it belongs to this broker.",
        "Stop the broker and run `stratalog recover --all {directory}`, which rewrites it.",
    ),
    _KIND.UNKNOWN_PARTITION: AuditRule(
        _WARNING,
        "A broker renames the directory to -stray and does not serve it.",
        "Move it away if it is not needed; or create the topic first.",
    ),
    _KIND.UNREADABLE_CHECKPOINT: AuditRule(
        _ERROR,
        "A broker takes the log directory offline, or starts as if the file were empty.",
        "Stop the broker and run `stratalog recover --all {directory}`, which rewrites it.",
    ),
    _KIND.START_PAST_END: AuditRule(
        _ERROR,
        "A broker deletes the whole log when it starts, because the log ends before its start offset.",
        "Copy the partition's directory before you start a broker; then lower or delete its line in "
        "log-start-offset-checkpoint.",
    ),
    _KIND.CHECKPOINT_PAST_END: AuditRule(
        _WARNING,
        "The log may have lost its end since the checkpoint was written. A truncation inside a batch leaves "
        "this too.",
        _RECOVER_ALL,
    ),
    _KIND.WILL_NOT_START: AuditRule(
        _ERROR, "A broker refuses to start because of it.", "See what was found."
    ),
    _KIND.STRAY: AuditRule(
        _WARNING, "A broker keeps it and never deletes it.", "Delete the directory if nobody needs it."
    ),
    _KIND.TEMPORARY_FILE: AuditRule(_NOTE, "A broker finishes or deletes it at its next start.", _NOTHING),
    _KIND.FOREIGN_FILE: AuditRule(_NOTE, "A broker does not look at it.", "Delete it if nobody needs it."),
    _KIND.WAITING_FILE: AuditRule(
        _NOTE, "It was deleted, and waits for file.delete.delay.ms; a broker removes it.", _NOTHING
    ),
    _KIND.NOT_CLEAN: AuditRule(
        _NOTE,
        "A broker runs here, or it did not shut down cleanly and recovers the logs when it starts.",
        "If no broker runs here: `stratalog recover {directory}`.",
    ),
    _KIND.GAP: AuditRule(_NOTE, "Compaction or deletion has removed these offsets.", _NOTHING),
    _KIND.UNREADABLE: AuditRule(
        _ERROR,
        "It could not be audited.",
        "Check owner and permissions, and whether the disk is sound.",
    ),
}
assert set(RULES) == set(AuditKind), "every kind has a rule"
