"""A log directory for `stratalog demo`: five topics, one for each codec, and those of `demo_groups.py`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from stratalog.cli.demo_groups import write_commits, write_transfers
from stratalog.directory.formatting.format import format_directories
from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.recover import recover_directories
from stratalog.engine.engine import results_in_order
from stratalog.engine.progress import OnProgress
from stratalog.engine.threads import ThreadEngine
from stratalog.files.disk import Disk
from stratalog.files.names import FileKind, TopicPartition, partition_directory_name, segment_file_name
from stratalog.records.build import BatchOptions, build_batches
from stratalog.records.compression import Codec

START_MS = 1_767_225_600_000  # 2026-01-01 00:00:00 UTC
ROWS_AT_ONCE = 16_384
BATCH_SIZE = 65_536
DISTINCT_VALUES = 20_000
DISTINCT_KEYS = 5_000
MEAN_VALUE_SIZE = 120
MEAN_GAP_MS = 20
PLACES = (b"Amsterdam", b"Berlin", b"Lisboa", b"Nairobi", b"Osaka", b"Valparaiso")
STATES = (b"accepted", b"declined", b"pending", b"refunded")


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTopic:
    """A topic of the demo; `share` is its part of all the bytes."""

    name: str
    codec: Codec
    partitions_count: int
    share: float


# Plausible shares; gzip's is small because it takes the longest to write.
TOPICS = (
    DemoTopic(name="clicks", codec=Codec.SNAPPY, partitions_count=2, share=0.18),
    DemoTopic(name="invoices", codec=Codec.GZIP, partitions_count=1, share=0.02),
    DemoTopic(name="orders", codec=Codec.NONE, partitions_count=3, share=0.50),
    DemoTopic(name="payments", codec=Codec.ZSTD, partitions_count=2, share=0.10),
    DemoTopic(name="sensors", codec=Codec.LZ4, partitions_count=2, share=0.20),
)
SEGMENTS_IN_ALL = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """One partition to write: where, what and how much."""

    folder: Path
    topic: DemoTopic
    partition: int
    size: int
    segment_size: int
    seed: int


def plan_logs(directory: Path, *, size: int, seed: int) -> list[PartitionPlan]:
    """The partitions of a directory of about `size` bytes."""
    return [
        PartitionPlan(
            folder=directory / partition_directory_name(TopicPartition(topic.name, partition)),
            topic=topic,
            partition=partition,
            size=int(size * topic.share) // topic.partitions_count,
            segment_size=size // SEGMENTS_IN_ALL,
            seed=seed,
        )
        for topic in TOPICS
        for partition in range(topic.partitions_count)
    ]


def build_logs(
    directory: Path, *, size: int, seed: int, disk: Disk, on_progress: OnProgress | None = None
) -> list[Path]:
    """Write the partitions in parallel: encoding, compressing and writing all release the GIL.

    A recovery then builds their indexes, as after a crash, and the directory is formatted for a stand-alone
    broker. Returns the .log files of TOPICS, in order.
    """
    plans = plan_logs(directory, size=size, seed=seed)
    sizes = [plan.size for plan in plans]
    writing = ThreadEngine().run(
        lambda _, plan: write_partition(disk, plan), plans, sizes=sizes, on_progress=on_progress
    )
    ends = {
        TopicPartition(plan.topic.name, plan.partition): end
        for plan, end in zip(plans, results_in_order(writing), strict=True)
    }
    logs = sorted(directory.glob(f"*/*{FileKind.LOG.value}"))
    write_transfers(disk, directory, START_MS)
    write_commits(disk, directory, ends, START_MS)
    recover_directories([str(directory)], options=RecoveryChoices())
    format_directories([directory])
    return logs


def write_partition(disk: Disk, plan: PartitionPlan) -> int:
    """Write the segments of one partition, each named after its first offset as Kafka names them.

    Returns the end of the log.
    """
    plan.folder.mkdir(parents=True)
    options = BatchOptions(codec=plan.topic.codec, partition_leader_epoch=0)
    written_size = segment_size = next_offset = 0
    path = plan.folder / segment_file_name(0, FileKind.LOG)
    for rows in _records(plan):
        blob = b"".join(build_batches(rows, options, base_offset=next_offset, batch_size=BATCH_SIZE))
        if segment_size and segment_size + len(blob) > plan.segment_size:
            path = plan.folder / segment_file_name(next_offset, FileKind.LOG)
            segment_size = 0
        disk.append(path, blob)
        segment_size += len(blob)
        written_size += len(blob)
        next_offset += rows.num_rows
        if written_size >= plan.size:
            break
    return next_offset


def _records(plan: PartitionPlan) -> Iterator[pa.RecordBatch]:
    """Endless records: keys and values drawn from a pool, with ascending timestamps."""
    random = np.random.default_rng([plan.seed, TOPICS.index(plan.topic), plan.partition])
    values = pa.array(_values(random), pa.binary())
    keys = pa.array([b"customer-%07d" % number for number in range(DISTINCT_KEYS)], pa.binary())
    rows_count = min(ROWS_AT_ONCE, max(1, plan.segment_size // 4 // MEAN_VALUE_SIZE))
    now_ms = START_MS
    while True:
        times = now_ms + np.cumsum(random.integers(0, 2 * MEAN_GAP_MS, rows_count))
        now_ms = int(times[-1])
        columns = {
            "key": keys.take(pa.array(random.integers(0, DISTINCT_KEYS, rows_count))),
            "value": values.take(pa.array(random.integers(0, DISTINCT_VALUES, rows_count))),
            "timestamp": pa.array(times),
        }
        yield pa.RecordBatch.from_pydict(columns)


def _values(random: np.random.Generator) -> list[bytes]:
    """Small JSON documents, as similar to each other as those of an application."""
    amounts = random.integers(1, 10**6, DISTINCT_VALUES).tolist()
    accounts = random.integers(0, 2**63, DISTINCT_VALUES).tolist()
    places = random.integers(0, len(PLACES), DISTINCT_VALUES).tolist()
    return [
        b'{"account":"%016x","amount":%d.%02d,"currency":"EUR","place":"%b","status":"%b","attempt":%d}'
        % (account, amount // 100, amount % 100, PLACES[place], STATES[amount % len(STATES)], amount % 3)
        for account, amount, place in zip(accounts, amounts, places, strict=True)
    ]
