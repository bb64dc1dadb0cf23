"""The records of internal topics, and a snapshot of the cluster's metadata."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from functools import cache

import crc32c

from stratalog.directory.cluster_metadata import read_cluster_metadata
from stratalog.files.simulated import SimulatedDisk
from stratalog.jobs.metadata_snapshot import SnapshotTask, read_table_task
from stratalog.jobs.reading.options import OnCorruption
from stratalog.records.internal import control_contents, decode_control, decode_internal, record_contents
from stratalog.records.internal_topics import INTERNAL_TOPICS
from stratalog.records.reader import read_batches
from tests.properties.damage import damaged
from tests.properties.victim import FIXTURES, ROOT, Outcomes, files_of

COLUMNS = ("offset", "key", "value", "headers", "timestamp")


@cache
def internal_records() -> tuple[bytes, ...]:
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


def spoil_internal(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
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


def read_internal(outcomes: Outcomes, rng: random.Random, data: bytes) -> None:
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
def metadata_snapshots() -> tuple[bytes, ...]:
    return files_of("*.checkpoint")


def spoil_batches(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
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


def read_metadata_snapshot(outcomes: Outcomes, _rng: random.Random, data: bytes) -> None:
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
