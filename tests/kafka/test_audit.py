"""Audits beside a busy broker, whose cleaner and retention replace and delete files: nothing is found.

A transactional producer commits and aborts, a compacted topic is cleaned all the time, and another one loses
its oldest segments. The audits run back to back until enough files were replaced.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from stratalog.operations.audit.audit import audit
from stratalog.operations.audit.kinds import Severity
from tests import profile
from tests.fixtures.broker_4_3_1 import PROPERTIES
from tests.fixtures.records import transactions
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic, produce, producer
from tests.kafka.conftest import had
from tests.kafka.jars import resolve

AUDITS = profile.examples(2000, quick=10, ci=20)
LEAST_S = 20 * 60 if profile.current() == profile.DEEP else 0
BUSY = PROPERTIES | {
    "log.cleaner.backoff.ms": "20",
    "log.segment.delete.delay.ms": "50",
    "log.retention.check.interval.ms": "50",
    "log.initial.task.delay.ms": "50",
}
SMALL = {"internal.segment.bytes": "8000", "file.delete.delay.ms": "50"}
TOPICS = {
    "cleaned": SMALL | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"},
    "retained": SMALL | {"retention.bytes": "20000", "retention.ms": "-1"},
    "decided": SMALL | {"retention.ms": "-1"},
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """For both tests; the second one stops it."""
    with Broker(had(resolve), tmp_path_factory.mktemp("busy"), properties=BUSY) as running:
        for topic, config in TOPICS.items():
            create_topic(running.bootstrap, topic, config=config)
        yield running


def write(client: Producer, transactional: Producer, number: int) -> None:
    for topic in ("cleaned", "retained"):
        records = [
            {"key": b"%d" % (each % 7), "value": b"round %d, %d" % (number, each)} for each in range(60)
        ]
        produce(client, topic, records, batch=20)
    transactions(transactional, "decided", "ca", count=6, batch=3)


def test_nothing_is_found_beside_a_busy_broker(broker: Broker) -> None:
    client = producer(broker.bootstrap, linger_ms=20)
    transactional = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "audited"})
    transactional.init_transactions()
    firsts: set[str] = set()
    began = time.monotonic()
    number = 0
    while number < AUDITS or time.monotonic() - began < LEAST_S:
        number += 1
        write(client, transactional, number)

        report = audit([broker.log_dir], deep=number % 4 == 0)

        assert [
            (finding.kind.value, finding.partition, finding.file, finding.words)
            for finding in report.findings
            if finding.severity is not Severity.NOTE
        ] == []
        firsts |= {
            f"{topic} {sorted((broker.log_dir / f'{topic}-0').glob('*.log'))[0].stat().st_ino}"
            for topic in TOPICS
        }
    print(f"{number} audits in {time.monotonic() - began:.0f} s beside {len(firsts)} first segments")
    assert len(firsts) > number // 10


def test_a_stopped_broker_left_healthy_directories(broker: Broker) -> None:
    client = producer(broker.bootstrap, linger_ms=20)
    transactional = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "audited"})
    transactional.init_transactions()
    for number in range(10):
        write(client, transactional, number)
    broker.stop()

    report = audit([broker.log_dir], deep=True)

    assert report.status == 0, report.findings
    assert report.totals()["records"] > 500
