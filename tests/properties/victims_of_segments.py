"""The files of a partition: indexes, producer snapshots, leader epochs, the topic's id."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import crc32c

from stratalog.config import LogConfig
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.epochs import LeaderEpochFileCache
from stratalog.log.partition_metadata import PartitionMetadataFile
from stratalog.log.producers.snapshot import CRC_COVERS_FROM, build_snapshot
from stratalog.log.producers.snapshot_files import SnapshotFiles
from stratalog.segment.offset_index import OffsetIndex
from stratalog.segment.sanity import sanity_check
from stratalog.segment.segment import LogSegment
from stratalog.segment.time_index import TimeIndex
from stratalog.segment.txn_index import TransactionIndex
from tests.properties.damage import INT64_EDGES, damaged
from tests.properties.victim import FIXTURES, PARTITION, Outcomes, Read, files_of, on_disk

# The indexes of a segment


@dataclass(frozen=True)
class Segment:
    """A segment of a broker's, with its indexes."""

    base_offset: int
    files: dict[str, bytes]


@cache
def segments() -> tuple[Segment, ...]:
    """Segments whose offset index, time index and, some, transaction index have entries."""
    found = []
    for log in sorted(FIXTURES.glob("*/*/logs/*/*.log")):
        files = {path.name: path.read_bytes() for path in log.parent.glob(f"{log.stem}.*index")}
        size = sum(map(len, files.values()))
        if files.get(f"{log.stem}.index", b"")[:8].strip(b"\0") and size < 5000:
            found.append(Segment(int(log.stem), {**files, log.name: log.read_bytes()}))
    return tuple(found)


def indexes(suffix: str) -> Callable[[], Sequence[bytes]]:
    def healthy() -> Sequence[bytes]:
        # With the segment in front of it, as the reader must get the log that belongs to it.
        return tuple(
            bytes([number]) + segment.files[name]
            for number, segment in enumerate(segments())
            for name in segment.files
            if name.endswith(suffix) and segment.files[name]
        )

    return healthy


def spoil_index(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    number, entries = data[:1], bytearray(data[1:])
    if rng.random() < 0.4:  # a field of an entry, and not just any bytes
        size = {0: 8, 4: 12}.get(len(entries) % 12 if len(entries) % 8 else 0, 8)
        at = rng.randrange(max(1, len(entries) // size)) * size
        edge = struct.pack(">q", rng.choice(INT64_EDGES))[-rng.choice((4, 8)) :]
        entries[at : at + len(edge)] = edge
        return number + bytes(entries)
    return number + damaged(rng, bytes(entries), others)


def read_index(suffix: str) -> Read:
    def read(outcomes: Outcomes, rng: random.Random, data: bytes) -> None:
        segment = segments()[data[0]]
        base = segment.base_offset
        name = f"{base:020d}{suffix}"
        files = {**segment.files, name: data[1:]}
        disk = SimulatedDisk.of({f"{PARTITION}/{file}": content for file, content in files.items()})
        log_size = len(files[f"{base:020d}.log"])
        path = f"{PARTITION}/{name}"
        edges = [rng.choice(INT64_EDGES) for _ in range(4)] + [base, base + rng.randrange(60)]
        if suffix == ".index":
            _read_offset_index(outcomes, OffsetIndex(disk, path, base, max_size=1 << 20), edges, log_size)
        elif suffix == ".timeindex":
            _read_time_index(outcomes, TimeIndex(disk, path, base, max_size=1 << 20), edges)
        else:
            _read_txn_index(outcomes, TransactionIndex(disk, path, base), edges)
        read_segment(outcomes, disk, base, edges)

    return read


def _read_offset_index(outcomes: Outcomes, index: OffsetIndex, edges: list[int], log_size: int) -> None:
    outcomes.of(lambda: index.sanity_check(log_size), "index")
    outcomes.of(lambda: index.check_length(), "index")
    outcomes.of(lambda: index.last_entry, "index")
    for edge in edges:
        outcomes.of(lambda at=edge: index.lookup(at), "index")
        outcomes.of(lambda at=edge: index.span(at, ahead=2), "index")
        outcomes.of(lambda at=edge: index.upper_bound(at), "index")
    for number in range(min(index.entry_count, 3)):
        outcomes.of(lambda at=number: index.entry(at), "index")
    index.forget()


def _read_time_index(outcomes: Outcomes, index: TimeIndex, edges: list[int]) -> None:
    outcomes.of(lambda: index.sanity_check(edges[-1]), "time index")
    outcomes.of(lambda: index.check_length(), "time index")
    outcomes.of(lambda: index.last_entry, "time index")
    for edge in edges:
        outcomes.of(lambda at=edge: index.lookup(at), "time index")
    for number in range(min(index.entry_count, 3)):
        outcomes.of(lambda at=number: index.entry(at), "time index")
    index.forget()


def _read_txn_index(outcomes: Outcomes, index: TransactionIndex, edges: list[int]) -> None:
    outcomes.of(index.sanity_check, "transaction index")
    outcomes.of(index.all_aborted, "transaction index")
    outcomes.of(lambda: index.last_offset, "transaction index")
    for edge in edges:
        outcomes.of(lambda at=edge: index.collect(at, at + 100), "transaction index")
    index.forget()


def read_segment(outcomes: Outcomes, disk: SimulatedDisk, base: int, edges: list[int]) -> None:
    """All queries of a segment, and the check of its indexes."""
    segment = outcomes.of(
        lambda: LogSegment.open(disk, PARTITION, base, LogConfig(), lambda: 0), "segment: open"
    )
    if segment is None:
        return
    outcomes.of(lambda: sanity_check(segment.reader), "segment: check")
    outcomes.of(segment.reader.read_next_offset, "segment: next offset")
    outcomes.of(
        lambda: [chunk.position for chunk in segment.reader.batches(check_crc=True)], "segment: batches"
    )
    outcomes.of(lambda: [chunk.position for chunk in segment.reader.batches()], "segment: batches")
    for edge in edges:
        found = outcomes.of(
            lambda at=edge: segment.reader.read(at, 500, min_one_message=True), "segment: read"
        )
        if found is not None:
            assert 0 <= found.position <= found.position + found.size <= segment.size
        outcomes.of(lambda at=edge: segment.reader.find_offset_by_timestamp(at, base), "segment: time")
        outcomes.of(lambda at=edge: segment.reader.fetch_upper_bound_offset(at, 100), "segment: upper bound")
        outcomes.of(lambda at=edge: segment.reader.collect_aborted(at, at + 50), "segment: aborted")
    segment.close_handlers()


# Producer snapshots


@cache
def snapshots() -> tuple[bytes, ...]:
    return (*files_of("*.snapshot"), build_snapshot(()))


def spoil_snapshot(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    found = bytearray(damaged(rng, data, others))
    if (
        len(found) >= 10 and rng.random() < 0.7
    ):  # with a correct checksum: otherwise the code after it is not attacked
        found[:2] = struct.pack(">h", 1)
        if rng.random() < 0.7:
            found[6:10] = struct.pack(">i", (len(found) - 10) // 46)
        found[2:6] = struct.pack(">I", crc32c.crc32c(bytes(found[CRC_COVERS_FROM:])))
    return bytes(found)


def read_snapshot(outcomes: Outcomes, rng: random.Random, data: bytes) -> None:
    disk = on_disk(f"{58:020d}.snapshot", data)
    entries = outcomes.of(lambda: SnapshotFiles(disk, PARTITION).read(58), "snapshot")
    if entries is not None:
        # Every number that Kafka's form can hold is written as it was read.
        assert len(build_snapshot(entries)) == 10 + 46 * len(entries)
        for entry in entries[:3]:
            outcomes.of(
                lambda one=entry: one.find_duplicate(*(rng.choice(INT64_EDGES) for _ in range(3))),
                "snapshot: entry",
            )


# The small files of text


def read_epochs(outcomes: Outcomes, rng: random.Random, data: bytes) -> None:
    name = "leader-epoch-checkpoint"
    cache_ = outcomes.of(lambda: LeaderEpochFileCache(on_disk(name, data), f"{PARTITION}/{name}"), "epochs")
    if cache_ is None:
        return
    entries = cache_.entries
    assert list(entries) == sorted(entries)
    for edge in (rng.choice(INT64_EDGES), 0, 50):
        outcomes.of(lambda at=edge: cache_.epoch_for_offset(at), "epochs: asked")
        outcomes.of(lambda at=edge: cache_.end_offset_for(at, 100), "epochs: asked")
        outcomes.of(lambda at=edge: (cache_.previous_entry(at), cache_.next_epoch(at)), "epochs: asked")
    outcomes.of(lambda: cache_.truncate_from_end(rng.choice(INT64_EDGES)), "epochs: cut")
    outcomes.of(lambda: cache_.truncate_from_start(rng.choice(INT64_EDGES)), "epochs: cut")


def read_partition_metadata(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
    disk = on_disk("partition.metadata", data)
    file = PartitionMetadataFile(disk, f"{PARTITION}/partition.metadata")
    outcomes.of(file.read, "partition.metadata")
