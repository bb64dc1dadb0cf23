"""A log directory of many partitions for the loading benchmarks, and a broker that loads the same one."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import crc32c as package
import numpy as np

from stratalog.records.batch import RECORD_BATCH_OVERHEAD, BatchHeader
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.kernels.memory import Bytes
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic
from tests.kafka.jars import resolve
from tests.kafka.tools import KafkaError

SEGMENT_SIZE = 128 << 20
# The flags of kafka-server-start.sh and kafka-run-class.sh: as people run Kafka, not as the tests do.
BROKER_JVM = (
    "-Xmx1G",
    "-Xms1G",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
)
_CRC_AT, _ATTRIBUTES_AT = 17, 21
_LOADED = re.compile(r"Loaded (\d+) logs in (\d+)ms")


def segments(batch_size: int, count: int, size: int = SEGMENT_SIZE) -> list[tuple[int, Bytes]]:
    """Consecutive segments as (base offset, bytes): records with 100-byte values, in batches of one size."""
    pattern = _batch(batch_size)
    header = BatchHeader.unpack(pattern)
    per_segment = size // len(pattern)
    found, next_offset = [], 0
    for _ in range(count):
        data = np.tile(np.frombuffer(pattern, np.uint8), per_segment).reshape(per_segment, len(pattern))
        offsets = next_offset + np.arange(per_segment, dtype=np.int64) * header.records_count
        # The base offset is outside the checksum, so the batches can differ in it and keep their checksum.
        data[:, :8] = offsets.astype(">i8").view(np.uint8).reshape(per_segment, 8)
        found.append((next_offset, data.reshape(-1)))
        next_offset += per_segment * header.records_count
    return found


def _batch(size: int) -> bytes:
    """A batch of `size` bytes: 100-byte values, of which the last one is extended to fill it."""
    count = max(1, (size - RECORD_BATCH_OVERHEAD) // 109)
    short = 0
    for _ in range(4):
        values = [b"v" * 100] * (count - 1) + [b"v" * (100 + short)]
        records = [Record(offset, 1, None, value) for offset, value in enumerate(values)]
        batch = build_batch(records, BatchOptions(partition_leader_epoch=0))
        if len(batch) == size:
            break
        short += size - len(batch)
    header = BatchHeader.unpack(batch)
    assert header.crc == package.crc32c(batch[_ATTRIBUTES_AT:])
    return batch


class LoadedDirectory:
    """The partitions of one topic in a broker's log directory, which can be made unclean again and again."""

    def __init__(
        self, work: Path, topic: str, partitions: int, properties: dict[str, str] | None = None
    ) -> None:
        self.topic, self.partitions = topic, partitions
        self._work = work
        self._properties = {
            "log.flush.offset.checkpoint.interval.ms": "86400000",
            "log.flush.start.offset.checkpoint.interval.ms": "86400000",
            "log.retention.ms": "-1",
            **(properties or {}),
        }
        with self._broker({}) as broker:
            create_topic(broker.bootstrap, topic, partitions=partitions)
            broker.stop()
        self.path = work / "logs"

    def fill(self, files: Sequence[tuple[str, Bytes]]) -> int:
        """Give every partition these .log files and sync them; returns the total bytes."""
        size = 0
        for partition in range(self.partitions):
            folder = self.path / f"{self.topic}-{partition}"
            for old in folder.glob("0*"):
                old.unlink()
            for name, data in files:
                with (folder / name).open("wb") as file:
                    file.write(data.data)
                    os.fsync(file.fileno())
                size += data.size
        return size

    def make_unclean(self) -> None:
        """As after a kill before the first checkpoint: no clean-shutdown file, recovery points 0."""
        (self.path / ".kafka_cleanshutdown").unlink(missing_ok=True)
        (self.path / "recovery-point-offset-checkpoint").write_bytes(b"")

    def load_with_kafka(self, threads: int) -> float:
        """The seconds of loading that the broker itself reports; it is killed right afterwards."""
        with self._broker({"num.recovery.threads.per.data.dir": str(threads)}) as broker:
            try:
                line = broker.wait_for_line(r"Loaded \d+ logs in")[-1]
            finally:
                broker.kill()
        found = _LOADED.search(line)
        if found is None:
            raise KafkaError(f"no time in {line!r}")
        return int(found[2]) / 1000

    def start_with_kafka(self) -> float:
        """The seconds until a broker has started, with a recovery thread for each core.

        Then the broker is stopped: after a kill, the next broker would wait until the session of the killed
        one has expired.
        """
        with self._broker({"num.recovery.threads.per.data.dir": str(os.cpu_count() or 1)}) as broker:
            broker.stop()
            return broker.start_s

    def remove(self) -> None:
        shutil.rmtree(self._work)

    def _broker(self, more: dict[str, str]) -> Broker:
        return Broker(resolve(), self._work, properties={**self._properties, **more}, jvm=BROKER_JVM)
