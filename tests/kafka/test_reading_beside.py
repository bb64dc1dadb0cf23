"""Reads of a log that a broker cleans meanwhile, over and over: no value is lost that must be there.

Each key is written some times and then never again: from its last acknowledgement on, every read must find
its last value, whatever files were renamed while it was planned or read.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests import profile
from tests.fixtures.broker_4_3_1 import PROPERTIES
from tests.jobs.reading.making import plan, rows_of
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic, produce, producer
from tests.kafka.conftest import had
from tests.kafka.jars import resolve
from tests.waiting import PATIENCE_S

TOPIC = "busy"
REPLACED = profile.examples(300, quick=15)  # times that the first segment is another file than before
LIFE = 15  # rounds in which a key is written
BUSY = PROPERTIES | {"log.cleaner.backoff.ms": "20", "log.segment.delete.delay.ms": "50"}
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.0",
    "internal.segment.bytes": "8000",
    "file.delete.delay.ms": "50",
}


class Writer:
    """Writes rounds of keyed records, and knows the last value of each key that is not written any more."""

    def __init__(self, client: Producer) -> None:
        self._client, self._round, self._latest = client, 0, dict[bytes, bytes]()
        self._chance = random.Random(7)
        self.settled: dict[bytes, bytes] = {}
        self.count = 0

    def write(self) -> None:
        keys = [b"%d" % number for number in range(self._round, self._round + LIFE)]
        chosen = [self._chance.choice(keys) for _ in range(60)] + keys[:1]
        records = [
            {"key": key, "value": b"%s of round %d, %d" % (key, self._round, i)}
            for i, key in enumerate(chosen)
        ]
        produce(self._client, TOPIC, records, batch=20)
        self._latest |= {record["key"]: record["value"] for record in records}
        self.settled[keys[0]] = self._latest.pop(keys[0])
        self.count += len(records)
        self._round += 1


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(had(resolve), tmp_path, properties=BUSY) as running:
        create_topic(running.bootstrap, TOPIC, config=COMPACTED)
        yield running


def test_every_read_beside_a_busy_cleaner_has_the_last_value_of_each_key(broker: Broker) -> None:
    writer = Writer(producer(broker.bootstrap, linger_ms=20))
    seen: dict[int, tuple[bytes, bytes]] = {}
    first_files: set[int] = set()
    reads, end = 0, time.monotonic() + PATIENCE_S
    while len(first_files) < REPLACED:
        assert time.monotonic() < end, f"the first segment was replaced {len(first_files)} times only"
        writer.write()
        settled = dict(writer.settled)
        tasks = plan(broker.log_dir, subscribe=TOPIC, minPartitions="4")
        for pause_s in (0, 0.05):  # the second time by a plan whose files may be gone
            time.sleep(pause_s)
            rows = rows_of(tasks)
            offsets = [row["offset"] for row in rows]
            assert offsets == sorted(set(offsets))
            for row in rows:
                assert seen.setdefault(row["offset"], (row["key"], row["value"])) == (
                    row["key"],
                    row["value"],
                )
            latest = {row["key"]: row["value"] for row in rows}
            assert {key: latest.get(key) for key in settled} == settled
            reads += 1
        with suppress(FileNotFoundError):  # the cleaner is between two renames
            first_files.add((broker.log_dir / f"{TOPIC}-0" / f"{0:020d}.log").stat().st_ino)

    assert len(rows) < writer.count / 2
    print(f"{reads} reads, {len(first_files)} first segments, {len(rows)} of {writer.count} records left")
    assert reads >= REPLACED
