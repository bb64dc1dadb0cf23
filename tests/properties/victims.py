"""Every kind of file that Stratalog reads, with healthy files to damage and the code that reads them.

A victim's `read` gets damaged bytes, and makes its calls through `Outcomes.of`: only our own errors are an
outcome there, any other error ends the run.
"""

from __future__ import annotations

import json
import random
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import crc32c

from stratalog.config import LogConfig
from stratalog.directory.checkpoints import DirectoryCheckpoints
from stratalog.directory.clean_shutdown import CleanShutdownFile
from stratalog.directory.clean_state import NOTE, CleanState
from stratalog.directory.cluster_metadata import read_cluster_metadata
from stratalog.directory.meta_properties import read_meta_properties
from stratalog.directory.pending_move import NOTE as MOVE
from stratalog.directory.pending_move import finish_pending_move
from stratalog.directory.pending_write import finish_pending_write
from stratalog.directory.write_journal import (
    JOURNAL,
    STAGED_PREFIX,
    Journal,
    PartitionWrite,
    PendingWrite,
    StagedSegment,
    format_journal,
    has_pending_write,
)
from stratalog.errors import StratalogError
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import SimulatedDisk
from stratalog.jobs.metadata_snapshot import SnapshotTask, read_table_task
from stratalog.jobs.reading.options import OnCorruption
from stratalog.log.checkpoint_file import OffsetCheckpointFile
from stratalog.log.cleaning.erase_audit import AUDIT, Audit, AuditLine
from stratalog.log.epochs import LeaderEpochFileCache
from stratalog.log.partition_metadata import PartitionMetadataFile
from stratalog.log.producers.snapshot import CRC_COVERS_FROM, build_snapshot
from stratalog.log.producers.snapshot_files import SnapshotFiles
from stratalog.log.recovery.manifest import MANIFEST, PREFIX, KeptPart, ManifestEntry, format_line
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.records.internal import control_contents, decode_control, decode_internal, record_contents
from stratalog.records.internal_topics import INTERNAL_TOPICS
from stratalog.records.reader import read_batches
from stratalog.segment.offset_index import OffsetIndex
from stratalog.segment.sanity import sanity_check
from stratalog.segment.segment import LogSegment
from stratalog.segment.time_index import TimeIndex
from stratalog.segment.txn_index import TransactionIndex
from tests.properties.damage import INT64_EDGES, damaged, damaged_text

FIXTURES = Path(__file__).parents[1] / "fixtures"
ROOT, PARTITION = "/data", "/data/orders-0"
OUTSIDE = "/outside/file"
COLUMNS = ("offset", "key", "value", "headers", "timestamp")
Found = TypeVar("Found")


class Outcomes:
    """The outcome of each call, and the number of files of each kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()

    def of(self, act: Callable[..., Found], label: str) -> Found | None:
        """Do it; None and a count for an error of ours."""
        try:
            found = act()
        except StratalogError as error:
            str(error)
            self.counts[f"{label}: {type(error).__name__}"] += 1
            return None
        self.counts[f"{label}: fine"] += 1
        return found


Read = Callable[[Outcomes, random.Random, bytes], None]
Spoil = Callable[[random.Random, bytes, Sequence[bytes]], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A kind of file. `share` says how many of a thousand cases of its group are of this kind."""

    name: str
    share: int
    healthy: Callable[[], Sequence[bytes]]
    read: Read
    spoil: Spoil = damaged

    def attack(self, outcomes: Outcomes, rng: random.Random) -> None:
        healthy = self.healthy()
        data = self.spoil(rng, rng.choice(healthy), _foreign() if rng.random() < 0.3 else healthy)
        outcomes.kinds[self.name] += 1
        self.read(outcomes, rng, data)


@cache
def files_of(pattern: str) -> tuple[bytes, ...]:
    """The fixtures' files of these names, each content once, and none that is empty."""
    found = {path.read_bytes() for path in sorted(FIXTURES.glob(f"*/*/logs/**/{pattern}")) if path.is_file()}
    return tuple(sorted(data for data in found if data))


@cache
def _foreign() -> tuple[bytes, ...]:
    """A file of each kind, to put under the name of another kind."""
    patterns = ("*.log", "*.index", "*.timeindex", "*.txnindex", "*.snapshot", "leader-*", "*.metadata")
    return (*(files_of(pattern)[0] for pattern in patterns), b"", bytes(5000), b"\x7fELF\x02\x01", b"{}")


def _on_disk(name: str, data: bytes) -> SimulatedDisk:
    return SimulatedDisk.of({f"{PARTITION}/{name}": data})


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


def _indexes(suffix: str) -> Callable[[], Sequence[bytes]]:
    def healthy() -> Sequence[bytes]:
        # With the segment in front of it, as the reader must get the log that belongs to it.
        return tuple(
            bytes([number]) + segment.files[name]
            for number, segment in enumerate(segments())
            for name in segment.files
            if name.endswith(suffix) and segment.files[name]
        )

    return healthy


def _spoil_index(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    number, entries = data[:1], bytearray(data[1:])
    if rng.random() < 0.4:  # a field of an entry, and not just any bytes
        size = {0: 8, 4: 12}.get(len(entries) % 12 if len(entries) % 8 else 0, 8)
        at = rng.randrange(max(1, len(entries) // size)) * size
        edge = struct.pack(">q", rng.choice(INT64_EDGES))[-rng.choice((4, 8)) :]
        entries[at : at + len(edge)] = edge
        return number + bytes(entries)
    return number + damaged(rng, bytes(entries), others)


def _read_index(suffix: str) -> Read:
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
def _snapshots() -> tuple[bytes, ...]:
    return (*files_of("*.snapshot"), build_snapshot(()))


def _spoil_snapshot(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    found = bytearray(damaged(rng, data, others))
    if (
        len(found) >= 10 and rng.random() < 0.7
    ):  # with a correct checksum: otherwise the code after it is not attacked
        found[:2] = struct.pack(">h", 1)
        if rng.random() < 0.7:
            found[6:10] = struct.pack(">i", (len(found) - 10) // 46)
        found[2:6] = struct.pack(">I", crc32c.crc32c(bytes(found[CRC_COVERS_FROM:])))
    return bytes(found)


def _read_snapshot(outcomes: Outcomes, rng: random.Random, data: bytes) -> None:
    disk = _on_disk(f"{58:020d}.snapshot", data)
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


def _read_epochs(outcomes: Outcomes, rng: random.Random, data: bytes) -> None:
    name = "leader-epoch-checkpoint"
    cache_ = outcomes.of(lambda: LeaderEpochFileCache(_on_disk(name, data), f"{PARTITION}/{name}"), "epochs")
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


def _read_partition_metadata(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
    disk = _on_disk("partition.metadata", data)
    file = PartitionMetadataFile(disk, f"{PARTITION}/partition.metadata")
    outcomes.of(file.read, "partition.metadata")


def _read_meta_properties(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
    disk = SimulatedDisk.of({f"{ROOT}/meta.properties": data})
    outcomes.of(lambda: read_meta_properties(disk, ROOT), "meta.properties")


def _read_checkpoint(name: str) -> Read:
    def read(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
        disk = SimulatedDisk.of({f"{ROOT}/{name}": data})
        outcomes.of(lambda: OffsetCheckpointFile(disk, f"{ROOT}/{name}").read(), "checkpoint")
        checkpoint = next(found for found in DirectoryCheckpoints(disk, ROOT).every if found.name == name)
        offsets = checkpoint.read()  # raises nothing, whatever is in the file
        assert checkpoint.problem is None or not offsets
        outcomes.of(lambda: checkpoint.write({TopicPartition("orders", 0): 7}), "checkpoint: write")
        assert checkpoint.read() == {TopicPartition("orders", 0): 7}

    return read


def _read_clean_shutdown(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
    disk = SimulatedDisk.of({f"{ROOT}/.kafka_cleanshutdown": data})
    epoch = CleanShutdownFile(disk, ROOT).read().broker_epoch  # raises nothing either
    assert epoch is None or -(2**63) <= epoch < 2**63
    outcomes.counts["clean shutdown: fine"] += 1


def _read_note(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
    outcomes.of(CleanState(SimulatedDisk.of({f"{ROOT}/{NOTE}": data}), ROOT).look, "note")


@cache
def _checkpoints() -> tuple[bytes, ...]:
    return (
        *files_of("*-offset-checkpoint"),
        b"0\n3\norders 0 12\na-b.c 7 9223372036854775807\n__x 2147483647 0\n",
        b"0\n0\n",
    )


@cache
def _notes() -> tuple[bytes, ...]:
    document = {"version": 0, "was_clean": True, "broker_epoch": 226, "has_cut": False}
    return (json.dumps(document).encode(), json.dumps({**document, "broker_epoch": None}).encode())


# The quarantine and the journal of a write


@cache
def _kept() -> tuple[ManifestEntry, ...]:
    digest = "b26cd57e45ef0d3e8ad0a1b1c4ddd0a0a0ab1d2c3d4e5f60718293a4b5c6d7e8"
    common: dict[str, Any] = {
        "directory": ROOT,
        "partition": "orders-0",
        "reason": "it is torn.",
        "time_ms": 17,
    }
    name = f"{PREFIX}orders-0-{42:020d}.log-8192"
    parts = (KeptPart(file=name, at=0, size=40), KeptPart(file=None, at=0, size=4096))
    return (
        ManifestEntry(
            **common,
            file=f"{42:020d}.log",
            position=8192,
            size=4136,
            is_whole=False,
            parts=parts,
            sha256=digest,
            inode=0,
        ),
        ManifestEntry(
            **common,
            file=f"{99:020d}.log",
            position=0,
            size=40,
            is_whole=True,
            parts=(KeptPart(file=name, at=0, size=40),),
            sha256=None,
            inode=11,
        ),
    )


@cache
def _manifests() -> tuple[bytes, ...]:
    lines = [format_line(kept) for kept in _kept()]
    return (b"".join(lines), lines[0], lines[1], lines[0] + lines[0][:70])


def _read_manifest(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
    (name,) = _kept()[1].files
    disk = SimulatedDisk.of({f"{ROOT}/{MANIFEST}": data, f"{ROOT}/{name}": bytes(range(40)), OUTSIDE: b"x"})
    place = Quarantine(disk, ROOT, clock=lambda: 18)
    entries = outcomes.of(place.entries, "manifest")
    for kept in entries or ():
        assert all(part.file in (None, name) for part in kept.parts), "a file of somebody else"
        if sum(part.size for part in kept.parts) < 1 << 24:  # zeros are only counted: a restore writes them
            disk.delete("/restored")
            outcomes.of(lambda one=kept: place.restore(one, "/restored"), "manifest: restore")
    outcomes.of(lambda: place.unknown_files("orders-0"), "manifest: unknown files")
    source = f"{PARTITION}/{7:020d}.log"
    disk.make_directories(PARTITION)
    disk.append(source, b"cut off")
    outcomes.of(
        lambda: place.keep_range(
            source, partition="orders-0", file=f"{7:020d}.log", position=2, size=5, reason="torn"
        ),
        "manifest: keep",
    )
    assert disk.contents()[OUTSIDE] == b"x"


@cache
def _journals() -> tuple[bytes, ...]:
    staged = tuple(
        StagedSegment(staged=f"{STAGED_PREFIX}5f0c-0-{n}", base_offset=42 + n, size=9, records_count=2)
        for n in range(2)
    )
    write = PartitionWrite(
        topic_partition=TopicPartition("orders", 0),
        topic_id=UUID(int=7),
        is_new=True,
        previous=None,
        segments=staged,
    )
    pending = PendingWrite(write="5f0c", partitions=(write,), query="c1d2", batch=7)
    behind = PartitionWrite(
        topic_partition=TopicPartition("orders", 0),
        topic_id=None,
        is_new=False,
        previous=(0, 7),
        segments=staged[:1],
    )
    return tuple(
        format_journal(journal)
        for journal in (
            Journal(pending=pending),
            Journal(pending=PendingWrite(write="5f0d", partitions=(behind,)), committed={"c1d2": 6}),
            Journal(waiting=(behind,), committed={"c1d2": 6}),
        )
    )


def _read_journal(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
    files = {
        f"{ROOT}/{STAGED_PREFIX}5f0c-0-{number}{suffix}": b"123456789"
        for number in range(2)
        for suffix in (".log", ".index", ".timeindex")
    }
    victims = {OUTSIDE: b"x", "/outside/file.log": b"y", f"{ROOT}/other-0/{0:020d}.log": b"z"}
    disk = SimulatedDisk.of({**files, **victims, f"{PARTITION}/{0:020d}.log": b"records"})
    disk.create(f"{ROOT}/{JOURNAL}")
    disk.write_at(f"{ROOT}/{JOURNAL}", data, 0)
    has_pending_write(disk, ROOT)  # raises nothing: what cannot be read counts as pending
    outcomes.of(lambda: finish_pending_write(disk, ROOT), "journal")
    left = disk.contents()
    assert {name: left.get(name) for name in victims} == victims, "a journal reached what is not its own"
    assert all(name.startswith((ROOT + "/", "/outside/")) for name in left), "it made a file elsewhere"


@cache
def _moves() -> tuple[bytes, ...]:
    document = {"version": 0, "topic": "orders", "partition": 0, "from": "/spare"}
    return (json.dumps(document).encode(), json.dumps({**document, "from": "/outside"}).encode())


def _read_move(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
    log = f"orders-0/{0:020d}.log"
    others = {f"/outside/{log}": b"x", f"/spare/other-0/{0:020d}.log": b"y", f"{ROOT}/{log}": b"z"}
    disk = SimulatedDisk.of({**others, f"/spare/{log}": b"old", f"{ROOT}/{MOVE}": data})
    outcomes.of(lambda: finish_pending_move(disk, ROOT, ["/spare"]), "move")
    left = disk.contents()
    assert {name: left.get(name) for name in others} == others, "a move reached what is not its own"
    assert list(left.values()).count(b"old") == 1


@cache
def _audits() -> tuple[bytes, ...]:
    line = AuditLine(
        time_ms=17,
        partition="orders-0",
        file=f"{0:020d}.log",
        what="segment",
        records_count=3,
        first_offset=4,
        last_offset=9,
        key_hashes=["ab", "cd"],
        size_before=900,
        size_after=700,
        sha256_before="e3b0",
        sha256_after=None,
    )
    text = json.dumps(asdict(line)).encode() + b"\n"
    return (text, text + text, text + text[:40])


def _read_audit(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
    audit = Audit(SimulatedDisk.of({f"{ROOT}/{AUDIT}": data}), ROOT)
    outcomes.of(lambda: [line.subject for line in audit.lines()], "audit")


# The records of internal topics, and a snapshot of them


@cache
def _internal_records() -> tuple[bytes, ...]:
    """Key and value of each record, with the topic's number, the sizes and whether it is a control record."""
    topics, found = sorted(INTERNAL_TOPICS), set()
    for number, topic in enumerate(topics):
        paths = [
            *FIXTURES.glob(f"*/*/logs/{topic}-0/*.log"),
            *FIXTURES.glob(f"*/*/logs/{topic}-0/*.checkpoint"),
        ]
        for path in sorted(paths):
            for batch in read_batches(path.read_bytes()):
                for record in batch:
                    key, value = record.key, record.value
                    head = struct.pack(">BBhh", number, batch.is_control, _size(key), _size(value))
                    found.add(head + (key or b"") + (value or b""))
    return tuple(sorted(found))


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _spoil_internal(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    number, is_control, key_size, value_size = struct.unpack_from(">BBhh", data)
    key, value = data[6 : 6 + max(key_size, 0)], data[6 + max(key_size, 0) :]
    draw = rng.random()
    if key and draw < 0.4:
        key = damaged(rng, key)[:30000]
    elif value and draw < 0.95:
        value = damaged(rng, value, others if rng.random() < 0.1 else ())[:30000]
    else:
        number = rng.randrange(len(INTERNAL_TOPICS))
    head = struct.pack(
        ">BBhh",
        number,
        is_control,
        -1 if key_size < 0 else len(key),
        -1 if value_size < 0 or draw > 0.98 else len(value),
    )
    return head + key + value


def _read_internal(outcomes: Outcomes, rng: random.Random, data: bytes) -> None:
    number, is_control, key_size, value_size = struct.unpack_from(">BBhh", data)
    topic = sorted(INTERNAL_TOPICS)[number]
    key = None if key_size < 0 else data[6 : 6 + key_size]
    value = None if value_size < 0 else data[len(data) - value_size :] if value_size else b""
    if is_control or rng.random() < 0.1:
        outcomes.of(lambda: decode_control(key, value), "control record")
        outcomes.of(lambda: control_contents(key, value), "control record: text")
    found = outcomes.of(lambda: decode_internal(topic, key, value), f"record of {topic}")
    if found is not None:
        outcomes.of(lambda: record_contents(topic, 7, key, value), f"record of {topic}: text")


@cache
def _metadata_snapshots() -> tuple[bytes, ...]:
    return files_of("*.checkpoint")


def _spoil_batches(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Damage, and mostly the checksums of all batches put right again."""
    found = bytearray(damaged(rng, data, others))
    if rng.random() < 0.7:
        position = 0
        while len(found) - position >= 61:
            size = 12 + struct.unpack_from(">i", found, position + 8)[0]
            if size < 61 or position + size > len(found):
                break
            covered = bytes(found[position + 21 : position + size])
            struct.pack_into(">I", found, position + 17, crc32c.crc32c(covered))
            position += size
    return bytes(found)


def _read_metadata_snapshot(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
    directory = f"{ROOT}/__cluster_metadata-0"
    path = f"{directory}/{50:020d}-{1:010d}.checkpoint"
    disk = SimulatedDisk.of({path: data})
    metadata = outcomes.of(lambda: read_cluster_metadata(disk, directory), "metadata snapshot")
    if metadata is not None and metadata.problem:
        outcomes.counts["metadata snapshot: a problem"] += 1
    for on_corruption in OnCorruption:
        task = SnapshotTask(path=path, end_offset=50, include_control=True, on_corruption=on_corruption)
        outcomes.of(
            lambda one=task: [len(part) for part in read_table_task(one, COLUMNS, disk=disk)],
            "metadata snapshot: table",
        )


VICTIMS = (
    *(
        Victim(name=suffix, share=90, healthy=_indexes(suffix), read=_read_index(suffix), spoil=_spoil_index)
        for suffix in (".index", ".timeindex", ".txnindex")
    ),
    Victim(name=".snapshot", share=100, healthy=_snapshots, read=_read_snapshot, spoil=_spoil_snapshot),
    Victim(
        name="leader-epoch-checkpoint",
        share=80,
        healthy=lambda: files_of("leader-epoch-checkpoint"),
        read=_read_epochs,
        spoil=damaged_text,
    ),
    Victim(
        name="partition.metadata",
        share=60,
        healthy=lambda: files_of("partition.metadata"),
        read=_read_partition_metadata,
        spoil=damaged_text,
    ),
    Victim(
        name="meta.properties",
        share=60,
        healthy=lambda: files_of("meta.properties"),
        read=_read_meta_properties,
        spoil=damaged_text,
    ),
    *(
        Victim(name=name, share=30, healthy=_checkpoints, read=_read_checkpoint(name), spoil=damaged_text)
        for name in (
            "recovery-point-offset-checkpoint",
            "log-start-offset-checkpoint",
            "replication-offset-checkpoint",
            "cleaner-offset-checkpoint",
        )
    ),
    Victim(
        name=".kafka_cleanshutdown",
        share=50,
        healthy=lambda: (*files_of(".kafka_cleanshutdown"), b'{"version":0}'),
        read=_read_clean_shutdown,
        spoil=damaged_text,
    ),
    Victim(name=NOTE, share=30, healthy=_notes, read=_read_note, spoil=damaged_text),
    Victim(name=MANIFEST, share=50, healthy=_manifests, read=_read_manifest, spoil=damaged_text),
    Victim(name=MOVE, share=30, healthy=_moves, read=_read_move, spoil=damaged_text),
    Victim(name=AUDIT, share=20, healthy=_audits, read=_read_audit, spoil=damaged_text),
    Victim(name=JOURNAL, share=60, healthy=_journals, read=_read_journal, spoil=damaged_text),
    Victim(
        name="__cluster_metadata .checkpoint",
        share=40,
        healthy=_metadata_snapshots,
        read=_read_metadata_snapshot,
        spoil=_spoil_batches,
    ),
    Victim(
        name="records of internal topics",
        share=80,
        healthy=_internal_records,
        read=_read_internal,
        spoil=_spoil_internal,
    ),
)
