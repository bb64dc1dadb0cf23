"""`stratalog-write.json`: what a committed write puts into logs, and what earlier writes did.

{"version": 0,
 "pending": {"write": "5f0c...", "query": "c1d2...", "batch": 7, "partitions": [PARTITION, ...]},
 "waiting": [PARTITION, ...],
 "committed": {"c1d2...": 6}}

PARTITION is {"topic": "orders", "partition": 0, "topic_id": "k3..." or null, "is_new": false,
              "previous": [0, 8192], "segments": [SEGMENT, ...]}
SEGMENT   is {"staged": "stratalog-write-5f0c...-0-0", "base_offset": 42, "size": 4096, "records_count": 17}

`pending` is a committed write; the next program that opens the directory finishes it (`pending_write.py`).
`waiting` are segments that could not be renamed before a broker started and used their offsets: the next
write appends them. `committed` is the last batch of each streaming query, which is not written again. Why:
docs/decisions/0016-a-write-renames.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from stratalog.errors import CorruptCheckpointError, InvalidNameError
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition, parse_partition_directory
from stratalog.files.paths import join_path, last_name
from stratalog.files.reading import DiskReader
from stratalog.limits import INT64_MAX
from stratalog.log.partition_metadata import topic_id_from_text, topic_id_to_text

JOURNAL = "stratalog-write.json"
STAGED_PREFIX = "stratalog-write-"
_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedSegment:
    """A finished segment: its staged name without suffix, and the base offset that it will get."""

    staged: str
    base_offset: int
    size: int
    records_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWrite:
    """The segments that one log will get, in their order.

    `previous` are base offset and size of the segment that was the log's last; None for a log without
    segments. `is_new`: this write creates the partition's directory.
    """

    topic_partition: TopicPartition
    topic_id: UUID | None
    is_new: bool
    previous: tuple[int, int] | None
    segments: tuple[StagedSegment, ...]

    @property
    def records_count(self) -> int:
        return sum(segment.records_count for segment in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingWrite:
    """A committed write; `query` and `batch` are set if it belongs to a stream."""

    write: str
    partitions: tuple[PartitionWrite, ...]
    query: str | None = None
    batch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """The content of the file."""

    pending: PendingWrite | None = None
    waiting: tuple[PartitionWrite, ...] = ()
    committed: Mapping[str, int] = field(default_factory=dict)

    def has(self, query: str | None, batch: int) -> bool:
        """Whether this batch of a streaming query is already in the logs."""
        return query is not None and batch <= self.committed.get(query, -1)

    def staged_names(self) -> set[str]:
        """The staged names that are still needed."""
        writes = [*self.waiting, *(self.pending.partitions if self.pending else ())]
        return {segment.staged for write in writes for segment in write.segments}


def journal_path(directory: str) -> str:
    return join_path(directory, JOURNAL)


def has_pending_write(disk: DiskReader, directory: str) -> bool:
    """Whether a write was committed here and not finished; also if the journal cannot be read."""
    try:
        return read_journal(disk, directory).pending is not None
    except CorruptCheckpointError:
        return True


def read_journal(disk: DiskReader, directory: str) -> Journal:
    """The journal of a log directory; an empty one if there is no file."""
    path = journal_path(directory)
    data = disk.read_file(path)
    return Journal() if data is None else parse_journal(data, path)


def write_journal(disk: Disk, directory: str, journal: Journal) -> None:
    """Replace the journal; on the device when this returns. An empty journal is deleted."""
    if journal == Journal():
        if disk.delete(journal_path(directory)):
            disk.sync_directory(directory)
        return
    disk.replace(journal_path(directory), format_journal(journal))


def format_journal(journal: Journal) -> bytes:
    """The bytes of a journal."""
    pending = journal.pending
    document = {
        "version": _VERSION,
        "pending": None
        if pending is None
        else {
            "write": pending.write,
            "query": pending.query,
            "batch": pending.batch,
            "partitions": [_document_of(write) for write in pending.partitions],
        },
        "waiting": [_document_of(write) for write in journal.waiting],
        "committed": dict(journal.committed),
    }
    return json.dumps(document).encode()


def parse_journal(data: bytes, path: str) -> Journal:
    """The journal in these bytes. It is always replaced as a whole, so an incomplete one is damaged."""
    try:
        found = json.loads(data)
        if found["version"] != _VERSION:
            raise CorruptCheckpointError(
                path,
                0,
                f"its version is {found['version']}: a newer stratalog wrote it, and must finish the write.",
            )
        pending = found["pending"]
        return Journal(
            pending=None
            if pending is None
            else PendingWrite(
                write=str(pending["write"]),
                query=pending["query"],
                batch=int(pending["batch"]),
                partitions=tuple(_partition_of(each) for each in pending["partitions"]),
            ),
            waiting=tuple(_partition_of(each) for each in found["waiting"]),
            committed={str(query): int(batch) for query, batch in found["committed"].items()},
        )
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
        InvalidNameError,
    ) as error:
        raise CorruptCheckpointError(
            path,
            0,
            f"it is not the journal of a write ({type(error).__name__}: {error}). The files {STAGED_PREFIX}* "
            "beside it may hold records that are in no log yet: keep them, and move this file away.",
        ) from error


def _document_of(write: PartitionWrite) -> dict[str, object]:
    return {
        "topic": write.topic_partition.topic,
        "partition": write.topic_partition.partition,
        "topic_id": None if write.topic_id is None else topic_id_to_text(write.topic_id),
        "is_new": write.is_new,
        "previous": write.previous,
        "segments": [
            {
                "staged": segment.staged,
                "base_offset": segment.base_offset,
                "size": segment.size,
                "records_count": segment.records_count,
            }
            for segment in write.segments
        ],
    }


def _partition_of(document: dict[str, Any]) -> PartitionWrite:  # Any: the caller checks it
    previous = document["previous"]
    topic_id = document["topic_id"]
    topic, partition = document["topic"], int(document["partition"])
    parse_partition_directory(_plain_name(f"{topic}-{partition}"))
    return PartitionWrite(
        topic_partition=TopicPartition(str(topic), partition),
        topic_id=None if topic_id is None else topic_id_from_text(topic_id),
        is_new=bool(document["is_new"]),
        previous=None if previous is None else (int(previous[0]), int(previous[1])),
        segments=tuple(
            StagedSegment(
                staged=_staged_name(str(each["staged"])),
                base_offset=_offset(int(each["base_offset"])),
                size=int(each["size"]),
                records_count=int(each["records_count"]),
            )
            for each in document["segments"]
        ),
    )


def _plain_name(name: str) -> str:
    """The name; ValueError if it leads out of its directory: files of this name are renamed and created."""
    if last_name(name) != name or "\0" in name:
        raise ValueError(f"{name[:100]!r} is not the name of a file")
    return name


def _staged_name(name: str) -> str:
    if not _plain_name(name).startswith(STAGED_PREFIX):
        raise ValueError(f"{name[:100]!r} is not the name of a staged segment")
    return name


def _offset(number: int) -> int:
    if not 0 <= number <= INT64_MAX:
        raise ValueError(f"{number} is not an offset")
    return number
