"""Log directories for pages: one with damage of many kinds, and one with thousands of segments."""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stratalog.directory.known_topics import TopicSources
from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.recover import recover_directories
from stratalog.operations.audit.audit import AuditRequest
from stratalog.operations.audit.audit_report import AuditReport
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from tests.fixtures.catalog import log_dirs
from tests.operations.audit.planting import MAX_TIMESTAMP_AT, batches, edit, flip, in_batch

NOW = 1_773_144_000_000  # 2026-03-10 12:00:00 UTC
HOUR_MS = 3_600_000
SEGMENT_MS = 6 * HOUR_MS
SETTINGS = {
    "clicks": {"cleanup.policy": "delete", "retention.ms": str(40 * HOUR_MS)},
    "customers": {"cleanup.policy": "compact"},
    "orders": {"cleanup.policy": "delete", "retention.ms": str(54 * HOUR_MS)},
    "payments": {"cleanup.policy": "delete", "retention.ms": str(72 * HOUR_MS)},
    "shipments": {"cleanup.policy": "delete", "retention.ms": str(48 * HOUR_MS)},
}


@dataclass(frozen=True)
class ExampleTopic:
    """A topic of the example; each partition has so many segments of so many batches."""

    name: str
    partitions: int
    segments: int
    batches: int
    codec: Codec = Codec.NONE


TOPICS = (
    ExampleTopic("orders", 3, 12, 12),
    ExampleTopic("clicks", 4, 8, 14, Codec.ZSTD),
    ExampleTopic("payments", 2, 8, 10, Codec.LZ4),
    ExampleTopic("customers", 1, 6, 9),
    ExampleTopic("shipments", 2, 8, 5, Codec.SNAPPY),
)


def build_example(root: Path) -> Path:
    """A broker's directory with five topics, and damage in some of them."""
    write_logs(root)
    plant_damage(root)
    return root


def example_report(root: Path, *names: str) -> AuditReport:
    """The audit of an example, with everything that its page shows."""
    sources = TopicSources(topic_settings=json.dumps(SETTINGS))
    request = AuditRequest(
        directories=[str(root)], names=names, sources=sources, is_mapped=True, clock=lambda: NOW
    )
    return request.run()


def write_logs(root: Path) -> None:
    """The logs without damage, as a clean shutdown leaves them."""
    (source,) = log_dirs("4.3.1", "clean")
    root.mkdir(parents=True)
    shutil.copy(source / "meta.properties", root)
    for topic in TOPICS:
        for partition in range(topic.partitions):
            write_partition(
                root / f"{topic.name}-{partition}", topic, random.Random(f"{topic.name}{partition}")
            )
    recover_directories([str(root)], options=RecoveryChoices())
    # Everything is replicated up to the end, which is where a recovery puts its point.
    shutil.copy(root / "recovery-point-offset-checkpoint", root / "replication-offset-checkpoint")


def write_partition(folder: Path, topic: ExampleTopic, dice: random.Random) -> None:
    folder.mkdir()
    offset, sequence, began = 0, 0, NOW - topic.segments * SEGMENT_MS
    epoch, size = 3, dice.uniform(0.5, 1.4)
    for number in range(topic.segments):
        base, blobs = offset, []
        for place in range(topic.batches):
            epoch += dice.random() < 0.03
            count = max(2, int(40 * size))
            begins = began + int((number + place / topic.batches) * SEGMENT_MS)
            step = SEGMENT_MS // topic.batches // count
            # The last transaction of one partition is never ended.
            is_open = folder.name == "payments-0" and number == topic.segments - 2 and place == 4
            options = BatchOptions(
                codec=topic.codec,
                partition_leader_epoch=epoch,
                producer_id=4711 if is_open else 12 + number % 3,
                producer_epoch=0,
                base_sequence=0 if is_open else sequence,
                is_transactional=is_open,
            )
            blobs.append(build_batch(_records(dice, offset, count, begins, step), options))
            offset += count
            sequence += 0 if is_open else count
            if topic.name == "customers" and place % 4 == 3:
                offset += 35  # as compaction leaves it
        (folder / f"{base:020d}.log").write_bytes(b"".join(blobs))


def _records(dice: random.Random, offset: int, count: int, begins: int, step: int) -> Iterator[Record]:
    for number in range(count):
        key = f"customer-{dice.randrange(5000):05d}"
        state = dice.choice(["accepted", "declined", "pending", "refunded"])
        value = {
            "account": f"{dice.getrandbits(64):016x}",
            "amount": dice.randrange(10**6) / 100,
            "state": state,
        }
        yield Record(
            offset + number, begins + number * step, key=key.encode(), value=json.dumps(value).encode()
        )


def plant_damage(root: Path) -> None:
    def log(partition: str, number: int) -> Path:
        return sorted((root / partition).glob("*.log"))[number]

    flip(log("orders-1", 4), 9_000)
    edit(log("orders-1", 8), lambda data: data.__setitem__(slice(20_000, 26_000), bytes(6_000)))
    lose_a_batch(log("orders-2", 7))
    whole = log("clicks-0", -1).read_bytes()
    log("clicks-0", -1).write_bytes(whole[:-700])
    in_batch(2, MAX_TIMESTAMP_AT, ">q", 1_773_144_000_000_000)(log("shipments-1", 5))
    index = log("clicks-2", 3).with_suffix(".index")
    edit(index, lambda data: data.__setitem__(7, data[7] ^ 0x11))


def lose_a_batch(log: Path) -> None:
    """Take a batch out of a log, and the entries of its indexes."""
    data = log.read_bytes()
    position, size = [*batches(data)][5]
    log.write_bytes(data[:position] + data[position + size :])
    for suffix in (".index", ".timeindex"):
        log.with_suffix(suffix).write_bytes(b"")


def build_many(root: Path, *, segments: int, partitions: int) -> Path:
    """A directory of small segments; every hundredth has a wrong checksum."""
    root.mkdir(parents=True)
    for name in ("meta.properties", ".kafka_cleanshutdown"):
        shutil.copy(log_dirs("4.3.1", "clean")[0] / name, root)
    for partition in range(partitions):
        folder = root / f"events-{partition}"
        folder.mkdir()
        for number in range(segments // partitions):
            at = NOW - (segments // partitions - number) * HOUR_MS
            blob = bytearray(
                build_batch([Record(number, at, value=b"x")], BatchOptions(partition_leader_epoch=0))
            )
            blob[-1] ^= number % 100 == 99
            log = folder / f"{number:020d}.log"
            log.write_bytes(blob)
            log.with_suffix(".index").write_bytes(b"")
            log.with_suffix(".timeindex").write_bytes(struct.pack(">qi", at, 0))
    return root
