"""The files of a log directory: checkpoints, notes, quarantine, journals, audits."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from functools import cache
from typing import Any
from uuid import UUID

from stratalog.directory.checkpoints import DirectoryCheckpoints
from stratalog.directory.clean_shutdown import CleanShutdownFile
from stratalog.directory.clean_state import NOTE, CleanState
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
from stratalog.files.names import ERASURES, QUARANTINE_MANIFEST, QUARANTINE_PREFIX, TopicPartition
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.checkpoint_file import OffsetCheckpointFile
from stratalog.log.cleaning.erase_audit import Audit, AuditLine
from stratalog.log.recovery.manifest import KeptPart, ManifestEntry, format_line
from stratalog.log.recovery.quarantine import Quarantine
from tests.properties.victim import OUTSIDE, PARTITION, ROOT, Outcomes, Read, files_of


def read_damaged_meta_properties(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
    disk = SimulatedDisk.of({f"{ROOT}/meta.properties": data})
    outcomes.of(lambda: read_meta_properties(disk, ROOT), "meta.properties")


def read_checkpoint(name: str) -> Read:
    def read(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
        disk = SimulatedDisk.of({f"{ROOT}/{name}": data})
        outcomes.of(lambda: OffsetCheckpointFile(disk, f"{ROOT}/{name}").read(), "checkpoint")
        checkpoint = next(found for found in DirectoryCheckpoints(disk, ROOT).every if found.name == name)
        offsets = checkpoint.read()  # raises nothing, whatever is in the file
        assert checkpoint.problem is None or not offsets
        outcomes.of(lambda: checkpoint.write({TopicPartition("orders", 0): 7}), "checkpoint: write")
        assert checkpoint.read() == {TopicPartition("orders", 0): 7}

    return read


def read_clean_shutdown(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
    disk = SimulatedDisk.of({f"{ROOT}/.kafka_cleanshutdown": data})
    epoch = CleanShutdownFile(disk, ROOT).read().broker_epoch  # raises nothing either
    assert epoch is None or -(2**63) <= epoch < 2**63
    outcomes.counts["clean shutdown: fine"] += 1


def read_note(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
    outcomes.of(CleanState(SimulatedDisk.of({f"{ROOT}/{NOTE}": data}), ROOT).look, "note")


@cache
def checkpoints() -> tuple[bytes, ...]:
    return (
        *files_of("*-offset-checkpoint"),
        b"0\n3\norders 0 12\na-b.c 7 9223372036854775807\n__x 2147483647 0\n",
        b"0\n0\n",
    )


@cache
def notes() -> tuple[bytes, ...]:
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
    name = f"{QUARANTINE_PREFIX}orders-0-{42:020d}.log-8192"
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
def manifests() -> tuple[bytes, ...]:
    lines = [format_line(kept) for kept in _kept()]
    return (b"".join(lines), lines[0], lines[1], lines[0] + lines[0][:70])


def read_manifest(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
    (name,) = _kept()[1].files
    disk = SimulatedDisk.of(
        {f"{ROOT}/{QUARANTINE_MANIFEST}": data, f"{ROOT}/{name}": bytes(range(40)), OUTSIDE: b"x"}
    )
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
def journals() -> tuple[bytes, ...]:
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


def read_journal(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
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
def moves() -> tuple[bytes, ...]:
    document = {"version": 0, "topic": "orders", "partition": 0, "from": "/spare"}
    return (json.dumps(document).encode(), json.dumps({**document, "from": "/outside"}).encode())


def read_move(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
    log = f"orders-0/{0:020d}.log"
    others = {f"/outside/{log}": b"x", f"/spare/other-0/{0:020d}.log": b"y", f"{ROOT}/{log}": b"z"}
    disk = SimulatedDisk.of({**others, f"/spare/{log}": b"old", f"{ROOT}/{MOVE}": data})
    outcomes.of(lambda: finish_pending_move(disk, ROOT, ["/spare"]), "move")
    left = disk.contents()
    assert {name: left.get(name) for name in others} == others, "a move reached what is not its own"
    assert list(left.values()).count(b"old") == 1


@cache
def audits() -> tuple[bytes, ...]:
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


def read_audit(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
    audit = Audit(SimulatedDisk.of({f"{ROOT}/{ERASURES}": data}), ROOT)
    outcomes.of(lambda: [line.subject for line in audit.lines()], "audit")
