"""How long does it take to find an offset by time, in a log of 100 segments?

A broker writes the log in small segments and stops. The log is copied, and the broker starts again. Then a
consumer asks the broker for the offsets of some times (`offsets_for_times`), and we ask the copy, in process.
The figure compares the median times of one question. Most of the broker's time is a round trip between
processes, which a program with direct access to the disk does not need.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from confluent_kafka import Consumer, TopicPartition

from benchmarks.rounds import Rounds
from stratalog.clock import system_clock
from stratalog.config import LogConfig
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition as Partition
from stratalog.log.loader import load
from stratalog.log.log import Log
from stratalog.log.scheduler import BackgroundScheduler
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic, producer
from tests.kafka.jars import resolve

SEGMENTS = 100
BATCHES_IN_A_SEGMENT = 40
RECORDS_IN_A_BATCH = 100
SEGMENT_SIZE = 500_000
QUESTIONS = 2000
START_MS = 1_700_000_000_000


def fill(broker: Broker, segments: int) -> int:
    """Write batches of 100 records, one millisecond apart; returns the last timestamp."""
    create_topic(broker.bootstrap, "times", config={"internal.segment.bytes": str(SEGMENT_SIZE)})
    client = producer(broker.bootstrap, batch_num_messages=RECORDS_IN_A_BATCH, linger_ms=5)
    now = START_MS
    for _ in range(segments * BATCHES_IN_A_SEGMENT):
        for _ in range(RECORDS_IN_A_BATCH):
            client.produce("times", value=b"v" * 110, partition=0, timestamp=now)
            now += 1
        client.poll(0)
        if len(client) > 50_000:
            client.flush()
    client.flush()
    return now - 1


def open_copy(folder: Path) -> Log:
    return load(
        disk=Disk(),
        clock=system_clock,
        scheduler=BackgroundScheduler(),
        directory=folder,
        topic_partition=Partition("times", 0),
        config=LogConfig(),
        high_watermark_follows_end=True,
    )


def median_ms(ask: Callable[[int], object], times: list[int]) -> float:
    taken = []
    for timestamp in times:
        began = time.perf_counter()
        ask(timestamp)
        taken.append(time.perf_counter() - began)
    return median(taken) * 1000


def main() -> None:
    rounds = Rounds(__doc__ or "")
    root = Path(tempfile.mkdtemp(prefix="stratalog-lookup-"))
    try:
        with Broker(resolve(), root / "broker", properties={"log.retention.ms": "-1"}) as broker:
            last = fill(broker, max(3, int(SEGMENTS * rounds.scale)))
            broker.stop()
            shutil.copytree(broker.log_dir / "times-0", root / "times-0")
            broker.start()
            log = open_copy(root / "times-0")
            consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "lookup", "log_level": 0})
            rng = random.Random(1)
            times = [rng.randrange(START_MS, last) for _ in range(max(20, int(QUESTIONS * rounds.scale)))]

            def ask_kafka(timestamp: int) -> int:
                (found,) = consumer.offsets_for_times([TopicPartition("times", 0, timestamp)], 30)
                return int(found.offset)

            def ask_us(timestamp: int) -> int:
                found = log.fetch_offset_by_timestamp(timestamp)
                assert found is not None
                return found.offset

            for timestamp in times[:50]:
                assert ask_kafka(timestamp) == ask_us(timestamp)
            print(f"{len(log.segments)} segments, {log.size:,} bytes")
            rounds.compare_times(
                "lookup_vs_kafka",
                ours=lambda: median_ms(ask_us, times),
                rival=lambda: median_ms(ask_kafka, times[:200]),
                floor=10,
                unit="ms",
            )
            offsets = [rng.randrange(log.log_end_offset) for _ in times]
            by_offset = min(median_ms(lambda offset: log.read(offset, 1), offsets) for _ in range(5))
            print(f"by offset, one batch read: {by_offset:.3f} ms")
            consumer.close()
    finally:
        shutil.rmtree(root, ignore_errors=True)
    rounds.end()


if __name__ == "__main__":
    main()
