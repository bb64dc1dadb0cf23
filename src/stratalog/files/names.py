"""Every name in a log directory: what it means, how it is built, and how a broker reacts to a wrong one.

<log.dir>/
  .lock  meta.properties  .kafka_cleanshutdown  bootstrap.checkpoint
  recovery-point-offset-checkpoint  log-start-offset-checkpoint
  replication-offset-checkpoint  cleaner-offset-checkpoint
  stratalog-quarantine.jsonl  stratalog-quarantine-*  stratalog-erased.jsonl          not Kafka's, but ours
  remote-log-index-cache/                      tiered storage; not a partition
  <topic>-<partition>/                         may be followed by .<32 hex>-delete, -future or -stray
    %020d.log .index .timeindex .txnindex .snapshot     may be followed by .deleted, .cleaned or .swap
    leader-epoch-checkpoint  partition.metadata
  __cluster_metadata-0/                        a partition directory that the log manager leaves alone
    %020d-%010d.checkpoint  quorum-state

Nothing here touches a disk. Kafka: LogFileUtils, LocalLog, Snapshots.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from enum import Enum
from typing import NamedTuple

from stratalog.errors import InvalidNameError, UsageError, WrongTypeError
from stratalog.limits import INT32_MAX, INT64_MAX, INT64_MIN

LOCK = ".lock"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS = (  # in a log directory; each has an offset for every partition
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
REMOTE_LOG_INDEX_CACHE = "remote-log-index-cache"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
QUORUM_STATE = "quorum-state"
QUARANTINE_MANIFEST = "stratalog-quarantine.jsonl"
QUARANTINE_PREFIX = "stratalog-quarantine-"
ERASURES = "stratalog-erased.jsonl"
TEMPORARY_SUFFIX = ".tmp"  # of a small file that is being replaced

MAX_TOPIC_LENGTH = 249
MAX_DIRECTORY_LENGTH = 255  # the limit of common file systems

# Java's \S knows only ASCII white space; its parseInt and parseLong accept a sign and digits of any script.
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")
_MARKED_DIRECTORY = re.compile(r"(\S+)-(\S+)\.(\S+)-(delete|future|stray)", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d+")
_UNIQUE_ID = re.compile(r"[0-9a-f]{32}")
_KRAFT_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint(\.deleted)?", re.ASCII)


class TopicPartition(NamedTuple):
    """A topic and one of its partitions; as text `topic-partition`, which is also its directory's name."""

    topic: str
    partition: int

    @classmethod
    def of(cls, key: PartitionKey) -> TopicPartition:
        """The partition that a caller named; a pair such as ("orders", 0) is accepted too."""
        if isinstance(key, TopicPartition):
            return key
        match key:
            case (str() as topic, int() as partition) if not isinstance(partition, bool):
                return cls(topic, partition)
        raise WrongTypeError(f'{key!r} is not a partition: write ("orders", 0) for partition 0 of orders.')

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


PartitionKey = TopicPartition | tuple[str, int]


def check_topic_name(topic: str) -> None:
    """InvalidNameError unless a broker would create this topic. Kafka: Topic.validate."""
    if not topic:
        raise InvalidNameError(topic, "a topic's name cannot be empty.")
    if topic in (".", ".."):
        raise InvalidNameError(topic, "a topic cannot be named . or .., which are directories.")
    if len(topic) > MAX_TOPIC_LENGTH:
        raise InvalidNameError(topic, f"a topic's name can have at most {MAX_TOPIC_LENGTH} characters.")
    if not _TOPIC.fullmatch(topic):
        raise InvalidNameError(topic, "a topic's name can only have ASCII letters, digits, '.', '_' and '-'.")


def check_new_partition(topic_partition: TopicPartition) -> None:
    """InvalidNameError unless a broker would create this partition, and find it again by its name."""
    check_topic_name(topic_partition.topic)
    if topic_partition.partition < 0:
        # The directory of partition -1 of `orders` would be read as partition 1 of `orders-`.
        raise InvalidNameError(str(topic_partition), "a partition's number cannot be negative.")
    if topic_partition.partition > INT32_MAX:
        raise InvalidNameError(str(topic_partition), f"a partition's number is at most {INT32_MAX}.")


class FileKind(Enum):
    """What a file of a segment is for; the value is its suffix."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TXN_INDEX = ".txnindex"
    PRODUCER_SNAPSHOT = ".snapshot"


class FileState(Enum):
    """The state of a segment's file; the value is the suffix after its name."""

    LIVE = ""
    DELETED = ".deleted"  # renamed, to be removed when file.delete.delay.ms has passed
    CLEANED = ".cleaned"  # being written by the cleaner or by a split; worthless after a crash
    SWAP = ".swap"  # complete, about to replace the segments it was made from


class SegmentFile(NamedTuple):
    """The name of one file of a segment, taken apart.

    The offset of a producer snapshot is the end (exclusive) of the state in it, which after a roll is also
    the base offset of the next segment.
    """

    offset: int
    kind: FileKind
    state: FileState = FileState.LIVE

    @property
    def name(self) -> str:
        return f"{self.offset:020d}{self.kind.value}{self.state.value}"


def segment_file_name(offset: int, kind: FileKind, state: FileState = FileState.LIVE) -> str:
    """The name Kafka gives to this file: twenty digits, so that names sort as their offsets do."""
    if not 0 <= offset <= INT64_MAX:
        raise InvalidNameError(str(offset), "an offset in a file's name must be from 0 to 2^63-1.")
    return SegmentFile(offset, kind, state).name


LAST_DIGITS = f"{INT64_MAX:020d}"
"""The largest offset as written in a name. As text, names of twenty digits sort like numbers."""


def parse_segment_file(name: str) -> SegmentFile | None:
    """The parts of the name of a segment's file; None for any other name, which a broker ignores.

    A name with one of the suffixes but no offset before its first dot is an InvalidNameError.
    """
    # A fast path, four times as fast, for the names that Kafka writes: a log may have a hundred thousand of
    # them.
    known = _SUFFIXES.get(name[20:])
    if known is not None and name[:20].isdecimal() and name.isascii() and name[:20] <= LAST_DIGITS:
        return SegmentFile(int(name[:20]), *known)
    if name[name.rfind(".") + 1 :] not in _ENDINGS:
        return None
    state = next((state for state in _MARKED_STATES if name.endswith(state.value)), FileState.LIVE)
    stem = name.removesuffix(state.value)
    kind = next((kind for kind in FileKind if stem.endswith(kind.value)), None)
    if kind is None:
        return None
    offset = parse_number(name[: name.index(".")], INT64_MIN, INT64_MAX)
    if offset is None:
        raise InvalidNameError(
            name,
            f"the name of a {kind.value} file must start with its offset, as in "
            f"{segment_file_name(0, kind)}. A broker fails to load the partition because of such a name: "
            "move the file away.",
        )
    return SegmentFile(offset, kind, state)


_MARKED_STATES = (FileState.DELETED, FileState.CLEANED, FileState.SWAP)
_ENDINGS = {each.value[1:] for each in (*FileKind, *_MARKED_STATES)}
_SUFFIXES = {kind.value + state.value: (kind, state) for kind in FileKind for state in FileState}


class KRaftSnapshotFile(NamedTuple):
    """A snapshot of the cluster's metadata: all records below `end_offset`, the last one of `epoch`."""

    end_offset: int
    epoch: int
    deleted: bool = False

    @property
    def name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint{'.deleted' if self.deleted else ''}"


def parse_kraft_snapshot_file(name: str) -> KRaftSnapshotFile | None:
    """The parts of such a name, or None."""
    match = _KRAFT_SNAPSHOT.fullmatch(name)
    return None if match is None else KRaftSnapshotFile(int(match[1]), int(match[2]), bool(match[3]))


class DirectoryState(Enum):
    """The state of a partition's directory; the value is the end of its name."""

    LIVE = ""
    DELETE = "-delete"  # to be removed when file.delete.delay.ms has passed
    FUTURE = "-future"  # being copied here from another log directory, to replace the live one
    STRAY = "-stray"  # no longer this broker's; kept until somebody removes it


class PartitionDirectory(NamedTuple):
    """The name of a partition's directory, taken apart.

    The topic of a directory marked -delete or -stray may be shortened to fit into 255 characters.
    """

    topic_partition: TopicPartition
    state: DirectoryState = DirectoryState.LIVE


def parse_partition_directory(name: str) -> PartitionDirectory:
    """The parts of a partition directory's name. Kafka: LocalLog.parseTopicPartitionName.

    Any other name is an InvalidNameError: a broker that finds such a directory (`lost+found`, say) does not
    start. `remote-log-index-cache` is not a partition either; a broker skips it, and so should the caller.
    """
    state, stem = DirectoryState.LIVE, name
    if name.endswith(_MARKS):
        state = next(state for state in _MARKED_DIRECTORIES if name.endswith(state.value))
        if not _MARKED_DIRECTORY.fullmatch(name):
            raise _no_partition(name)
        stem = name[: name.rindex(".")]
    topic, dash, number = stem.rpartition("-")
    partition = parse_number(number, -INT32_MAX - 1, INT32_MAX)
    if not dash or not topic or partition is None:
        raise _no_partition(name)
    return PartitionDirectory(TopicPartition(topic, partition), state)


_MARKED_DIRECTORIES = (DirectoryState.DELETE, DirectoryState.FUTURE, DirectoryState.STRAY)
_MARKS = tuple(state.value for state in _MARKED_DIRECTORIES)


def partition_directory_name(
    topic_partition: TopicPartition, state: DirectoryState = DirectoryState.LIVE, unique_id: str = ""
) -> str:
    """The directory's name. With a state it needs a `unique_id`: a random UUID as 32 lower-case hex digits.

    The topic is shortened if -delete or -stray would make the name longer than 255 characters. A name with
    -future is not shortened, so the file system may refuse it, as it does for Kafka. Kafka:
    LocalLog.logDeleteDirName.
    """
    if state is DirectoryState.LIVE:
        return str(topic_partition)
    if not _UNIQUE_ID.fullmatch(unique_id):
        raise InvalidNameError(unique_id, "the id in a directory's name must be 32 lower-case hex digits.")
    suffix = f"-{topic_partition.partition}.{unique_id}{state.value}"
    if state is DirectoryState.FUTURE:
        return topic_partition.topic + suffix
    return topic_partition.topic[: MAX_DIRECTORY_LENGTH - len(suffix)] + suffix


def parse_number(text: str, lowest: int, highest: int) -> int | None:
    """The number as Java's parseInt or parseLong reads it, or None; int() also accepts blanks and `_`."""
    # Nearly all are plain digits. Java's numbers have at most 19 digits without leading zeros; int() raises
    # ValueError for absurdly long ones.
    is_plain = len(text) < 20 and text.isascii() and text.isdigit()
    if not is_plain and (not _NUMBER.fullmatch(text) or len(text.lstrip("+-").lstrip("0")) > 19):
        return None
    number = int(text)
    return number if lowest <= number <= highest else None


def _no_partition(name: str) -> InvalidNameError:
    return InvalidNameError(
        name,
        "this is not topic-partition, nor topic-partition.id-delete, -future or -stray. A broker does not "
        "start with such a directory in its log.dirs: move it away.",
    )


def check_one_meaning(name: str, topics: Collection[str]) -> None:
    """UsageError if a topic and a partition of another topic both have this name.

    `topics` are those of the partitions that match the name. One of the two may not be meant, and a command
    may delete its records.
    """
    if name in topics and len(topics) > 1:
        topic, _, number = name.rpartition("-")
        raise UsageError(
            f"{name} is the name of a topic here, and also of partition {number} of topic {topic}. Name the "
            f"topic's partitions one by one, as in {name}-0, or all of {topic}."
        )


def near_name(name: str, there: Iterable[TopicPartition]) -> str:
    """The end of a sentence about a topic or partition that is not there: what was probably meant."""
    from difflib import get_close_matches  # only for an error

    partitions = {*there}
    topic, _, number = name.rpartition("-")
    numbers = sorted(each.partition for each in partitions if each.topic == topic)
    if numbers and number.isdecimal():
        is_row = numbers == [*range(numbers[0], numbers[-1] + 1)]
        last = f" to {numbers[-1]}" if len(numbers) > 1 else ""
        shown = f"{numbers[0]}{last}" if is_row else ", ".join(map(str, numbers))
        return f": {topic} has the partition{'s' if len(numbers) > 1 else ''} {shown}."
    names = {each.topic for each in partitions}
    if number.isdecimal():
        names |= {str(each) for each in partitions}
    near = get_close_matches(name, sorted(names), n=1)
    return f": did you mean {near[0]}?" if near else "."
