"""The values of a recovery: files as they were found, cuts and findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from stratalog.files.entries import FileId, inode_of
from stratalog.files.names import FileKind, TopicPartition, segment_file_name
from stratalog.log.epochs import EpochEntry
from stratalog.log.recovery.index_claims import IndexClaim


class FileFact(NamedTuple):
    """A file as the survey found it, under its present name on disk (for example `….log.swap`).

    It is the precondition of a step: any change of the file meanwhile changes one of these fields.
    """

    name: str
    size: int
    id: FileId
    mtime_ms: int

    @property
    def words(self) -> str:
        """The file in an error message."""
        return f"a file of {self.size} bytes, inode {inode_of(self.id)}, changed at {self.mtime_ms} ms"

    def is_same_but_for_name(self, other: FileFact) -> bool:
        return self[1:] == other[1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Bytes of a .log that the recovered partition no longer has.

    `file` is the live name of the .log. If a whole segment is cut, the position is 0 and `is_whole` is set.
    `first_offset` is the first offset lost, `last_offset` the last one, if known. `kept_as` names the file in
    quarantine, once it is known; it is None if nothing is kept, and empty for zeros, which are only counted.
    """

    file: str
    position: int
    size: int
    reason: str
    first_offset: int
    last_offset: int | None = None
    is_whole: bool = False
    kept_as: str | None = None


class FindingKind(Enum):
    """The kinds of findings in a partition's directory besides cuts; the value describes the kind."""

    PADDED_INDEX = "an index that was not cut to its entries"
    MISSING_INDEX = "a segment without its offset or time index"
    CORRUPT_INDEX = "an index that disagrees with its log"
    MISSING_SNAPSHOT = "a missing producer snapshot, which a clean shutdown writes"
    CORRUPT_SNAPSHOT = "a producer snapshot that cannot be trusted"
    STRAY_SNAPSHOT = "a producer snapshot that belongs to no segment"
    ORPHAN_INDEX = "an index without its log"
    MISSING_RECORDS = "records that were here, and are gone without a cut"
    LEFTOVER = "a temporary file of an operation that was interrupted"
    UNFINISHED_SWAP = "segments that were about to be replaced"
    SPLIT_SEGMENT = "offsets too far from their segment's base"
    DAMAGE_BELOW_RECOVERY_POINT = "damage in a part of the log that counts as flushed"
    TORN_END = "a log that was closed cleanly, and goes on after its last whole batch"
    UNKNOWN_START = "a log whose start is not known, so that deleted records may be visible again"
    BELOW_LOG_START = "a log that ends before its start"
    GAP = "readable batches after damage; the batches in between are lost"
    STUCK_READERS = "a transaction that began before a gap, and that no marker ends"
    EPOCH_FILE = "leader epochs that disagree with the log"
    MISSING_METADATA = "a partition without its topic id"
    PRODUCER_STATE = "batches that contradict their producer's transaction"
    FOREIGN_FILE = "a file name that no broker uses"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding: the file, a sentence with numbers, and the consequence.

    `consequence` says what a broker would do, or what recovery does about it.
    """

    kind: FindingKind
    file: str
    words: str
    consequence: str


def missing_snapshot(log_end_offset: int) -> Finding:
    """The finding that a cleanly closed log has no usable snapshot at its end."""
    return Finding(
        kind=FindingKind.MISSING_SNAPSHOT,
        file=segment_file_name(log_end_offset, FileKind.PRODUCER_SNAPSHOT),
        words="A clean shutdown writes a snapshot of all producers at the log's end.",
        consequence="The state is rebuilt from the newest snapshot and the records after it.",
    )


def unknown_start(why: str, start: int, epochs: Sequence[EpochEntry]) -> list[Finding]:
    """The finding that deleted records may be visible again, because the start of the log is lost.

    `start` is the base of the first segment, where the log starts now. The first leader epoch begins where
    the log starts, because a broker moves both together. So if the epochs begin at `start`, no record was
    deleted.
    """
    if epochs and epochs[0].start_offset <= start:
        return []
    words = f"{why} The log now starts at offset {start}, with its first segment. "
    if epochs:
        known = epochs[0].start_offset
        words += f"Its leader epochs begin at offset {known}: that is probably where it started before."
        advice = f"If it started there, delete the records before offset {known} again"
    else:
        words += "Before, it may have started anywhere between that offset and its high watermark."
        advice = "If there are such records, delete them again"
    return [
        Finding(
            kind=FindingKind.UNKNOWN_START,
            file="",
            words=words,
            consequence="Records that were deleted with DeleteRecords may be visible again. "
            f"{advice} with `kafka-delete-records.sh`, when the broker runs.",
        )
    ]


def missing_end(file: str, claim: IndexClaim) -> Finding:
    """The finding that a log ends before records that its indexes name."""
    return Finding(
        kind=FindingKind.MISSING_RECORDS,
        file=file,
        words=f"Its index shows that it had records up to offset {claim.last_offset}; it ends at offset "
        f"{claim.end_offset}.",
        consequence=f"Records up to offset {claim.last_offset} are missing, at least in this replica. A "
        "power cut can take them. The death of the broker's process cannot. But if the broker had truncated "
        "the log before, as a follower does, only old entries of the index are left.",
    )


def missing_logs(lost: Sequence[int], bases: Sequence[int], log_start_offset: int) -> list[Finding]:
    """Findings of segments that have lost their log, unless the log starts after them.

    `lost` are their bases, `bases` those of the segments that are there.
    """
    found = []
    for base_offset in lost:
        next_base = min((base for base in (*lost, *bases) if base > base_offset), default=None)
        if next_base is not None and next_base <= log_start_offset:
            continue
        which = f"from offset {base_offset} on"
        if next_base is not None:
            which = f"of the offsets {base_offset} to {next_base - 1}"
        found.append(
            Finding(
                kind=FindingKind.MISSING_RECORDS,
                file=segment_file_name(base_offset, FileKind.LOG),
                words=f"The file is missing, and with it the records {which}.",
                consequence="They are missing, at least in this replica.",
            )
        )
    return found


def stuck_readers(
    topic_partition: TopicPartition, open_transactions: Mapping[int, int], gap: int
) -> list[Finding]:
    """A finding for the first transaction that is open at the end of the log, if it began before a gap.

    A marker may be lost in the gap: then the coordinator has ended the transaction, and never writes another
    marker.
    """
    stuck = min(open_transactions.items(), key=lambda item: item[1], default=None)
    if stuck is None or stuck[1] >= gap:
        return []
    producer_id, offset = stuck
    topic, partition = topic_partition
    return [
        Finding(
            kind=FindingKind.STUCK_READERS,
            file="",
            words=f"The transaction of producer {producer_id} that began at offset {offset} is open, and its "
            "marker may be lost in the gap.",
            consequence=f"The last stable offset stays at {offset}: readers with read_committed see nothing "
            "from there on. When the broker runs, end the transaction with `kafka-transactions.sh "
            f"--bootstrap-server HOST:PORT abort --topic {topic} --partition {partition} --start-offset "
            f"{offset}`.",
        )
    ]
