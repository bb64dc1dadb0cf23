"""How fast can batches be appended to a log, in process?

Each figure has its own rival.

`append_vs_write`: a follower appends sets of 64 batches of 16 KiB, against one `write` of the same bytes to a
file, which is the least possible cost. The log adds a checksum over each byte and an index entry for each
batch.

`append_vs_kafka`: our side appends ready batches one by one as leader, checks records and assigns offsets.
The rival is a program that has no log itself: it sends the same records through librdkafka to a broker on
this machine (acks=1).

`append_vs_unifiedlog`: the rival appends the same batches to Kafka's own UnifiedLog in a separate JVM, where
compiled Java does what Python does here. On both sides, half of the time is the system's write to the page
cache.

`append_one`: `log.append` of one 100-byte value at a time, against one INSERT at a time into SQLite with a
write-ahead log and `synchronous=OFF`, which does not wait for the device either. SQLite is compiled. The
least possible cost of our append is one `pwrite`.

`append_many`: `log.append_many` of lists of 1,000 values of 100 bytes. The rival is aiokafka's compiled batch
builder on the same lists. It only builds the batch: no check, no offsets, no file.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatchBuilder

import stratalog
from benchmarks.rounds import Rounds
from stratalog.clock import system_clock
from stratalog.config import LogConfig
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.log.loader import load
from stratalog.log.log import Log
from stratalog.log.scheduler import BackgroundScheduler
from stratalog.records.batch import BatchHeader, set_base_offset
from stratalog.records.build import BatchOptions, build_batches
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic, producer
from tests.kafka.jars import KafkaUnavailableError, resolve
from tests.kafka.java import JavaProgram
from tests.kafka.tools import AS_SHIPPED

SETS = 512
BATCHES_IN_A_SET = 64
RECORDS = 2_000_000  # of 100 bytes
BATCH_SIZE = 16 << 10
SINGLES = 20_000
LISTS = 200
VALUES_IN_A_LIST = 1000
VALUE_SIZE = 100


class Folder:
    """A new partition directory for each run, removed afterwards."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="stratalog-append-"))
        self._count = 0

    def fresh(self) -> Path:
        self._count += 1
        path = self.root / f"append-{self._count}"
        path.mkdir()
        return path


def open_log(folder: Path) -> Log:
    return load(
        disk=Disk(),
        clock=system_clock,
        scheduler=BackgroundScheduler(),
        directory=folder,
        topic_partition=TopicPartition("append", 0),
        config=LogConfig(),
        high_watermark_follows_end=True,
    )


def ready_batches(count: int) -> list[bytes]:
    """Batches of 100-byte values as a producer sends them: each starts at offset 0."""
    now = system_clock()
    rng = np.random.default_rng(1)
    values = rng.integers(97, 123, (count, 100), dtype=np.uint8)
    table = pa.table({"value": [row.tobytes() for row in values], "timestamp": pa.array([now] * count)})
    batches = []
    for batch in build_batches(table, BatchOptions(partition_leader_epoch=0), batch_size=BATCH_SIZE):
        changed = bytearray(batch)
        set_base_offset(changed, 0)
        batches.append(bytes(changed))
    return batches


def follower_sets(batches: list[bytes], count: int) -> list[bytes]:
    """Sets of 64 batches with ascending offsets."""
    sets, offset = [], 0
    for number in range(count):
        parts = []
        for index in range(BATCHES_IN_A_SET):
            batch = bytearray(batches[(number * BATCHES_IN_A_SET + index) % len(batches)])
            set_base_offset(batch, offset)
            offset += BatchHeader.unpack(batch).records_count
            parts.append(bytes(batch))
        sets.append(b"".join(parts))
    return sets


def follow(folder: Folder, sets: list[bytes]) -> None:
    path = folder.fresh()
    log = open_log(path)
    for data in sets:
        log.append_as_follower(data, leader_epoch=0)
    log.close_handlers()
    shutil.rmtree(path)


def write_plainly(folder: Folder, sets: list[bytes]) -> None:
    path = folder.fresh()
    descriptor = os.open(path / "plain", os.O_WRONLY | os.O_CREAT, 0o600)
    for data in sets:
        os.write(descriptor, data)
    os.close(descriptor)
    shutil.rmtree(path)


def lead(folder: Folder, batches: list[bytes]) -> float:
    """The seconds that the appends took, without opening and removing the log."""
    path = folder.fresh()
    log = open_log(path)
    start = time.perf_counter()
    for batch in batches:
        log.append_as_leader(batch, leader_epoch=0)
    seconds = time.perf_counter() - start
    log.close_handlers()
    shutil.rmtree(path)
    return seconds


def lead_with_kafka(folder: Folder, program: JavaProgram, file: Path) -> float:
    """The seconds of the appends to Kafka's UnifiedLog, which the Java program measures itself."""
    path = folder.fresh()
    seconds = float(program.ask(f"{file}\t{path}"))
    shutil.rmtree(path)
    return seconds


def send(bootstrap: str, values: list[bytes]) -> Callable[[], float]:
    """Seconds from a producer's start until the broker has all records."""

    def run() -> float:
        start = time.perf_counter()
        client = producer(
            bootstrap,
            **{"linger_ms": 5, "batch_size": BATCH_SIZE, "acks": 1, "queue_buffering_max_messages": 10**6},
        )
        for value in values:
            while True:
                try:
                    client.produce("append", value=value, partition=0)
                    break
                except BufferError:
                    client.poll(0.01)
        client.flush()
        return time.perf_counter() - start

    return run


def append_singly(log: stratalog.PartitionLog, count: int) -> None:
    value = bytes(VALUE_SIZE)
    for _ in range(count):
        log.append(value)


def insert_singly(database: sqlite3.Connection, count: int) -> None:
    value = bytes(VALUE_SIZE)
    for number in range(count):
        database.execute("INSERT INTO log(key, value, timestamp) VALUES(?, ?, ?)", (None, value, number))


def append_lists(log: stratalog.PartitionLog, values: list[bytes], count: int) -> None:
    for _ in range(count):
        log.append_many(values)


def build_lists(values: list[bytes], count: int) -> None:
    now = system_clock()
    for _ in range(count):
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=1 << 20,
        )
        for offset, value in enumerate(values):
            builder.append(offset, now, None, value, [])
        builder.build()


def compare_small(rounds: Rounds, folder: Folder) -> None:
    """Measures `append_one` and `append_many`, on one log that grows from round to round."""
    singles, lists = int(SINGLES * rounds.scale), max(1, int(LISTS * rounds.scale))
    values = [bytes(VALUE_SIZE)] * VALUES_IN_A_LIST
    database = sqlite3.connect(folder.root / "log.db", isolation_level=None)  # commits each statement
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=OFF")
    database.execute("CREATE TABLE log(id INTEGER PRIMARY KEY, key BLOB, value BLOB, timestamp INTEGER)")
    with stratalog.open_log(folder.root / "small-0", create=True) as log:
        rounds.compare(
            "append_one",
            ours=lambda: append_singly(log, singles),
            rival=lambda: insert_singly(database, singles),
            floor=0.5,
            work="records",
            amount=singles,
        )
        rounds.compare(
            "append_many",
            ours=lambda: append_lists(log, values, lists),
            rival=lambda: build_lists(values, lists),
            floor=1,
            work="records",
            amount=lists * VALUES_IN_A_LIST,
        )
    database.close()


def main() -> None:
    rounds = Rounds(__doc__ or "")
    folder = Folder()
    try:
        compare_small(rounds, folder)
        records = int(RECORDS * rounds.scale)
        batches = ready_batches(records)
        sets = follower_sets(batches, max(4, int(SETS * rounds.scale)))
        rounds.compare(
            "append_vs_write",
            ours=lambda: follow(folder, sets),
            rival=lambda: write_plainly(folder, sets),
            floor=0.5,
            work="bytes",
            amount=sum(len(data) for data in sets),
        )
        try:
            jars = resolve()
        except KafkaUnavailableError as error:
            print(f"append_vs_unifiedlog and append_vs_kafka are left out: {error}")
            rounds.end()
        file = folder.root / "batches"
        file.write_bytes(b"".join(batches))
        with JavaProgram(jars, "AppendTimer", AS_SHIPPED) as program:
            rounds.compare_times(
                "append_vs_unifiedlog",
                ours=lambda: lead(folder, batches),
                rival=lambda: lead_with_kafka(folder, program, file),
                floor=1,
                unit="s",
            )
        file.unlink()
        values = [b"%0100d" % i for i in range(records)]
        with Broker(jars, folder.root / "broker", properties={"log.retention.ms": "-1"}) as broker:
            create_topic(broker.bootstrap, "append")
            rounds.compare_times(
                "append_vs_kafka",
                ours=lambda: lead(folder, batches),
                rival=send(broker.bootstrap, values),
                floor=15,
                unit="s",
            )
    finally:
        shutil.rmtree(folder.root, ignore_errors=True)
    rounds.end()


if __name__ == "__main__":
    main()
