"""`stratalog erase` on a stopped broker's directory, and the broker that starts on it and serves the rest."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from stratalog.cli.main import run
from stratalog.errors import CorruptRecordError
from stratalog.files.disk import Disk
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.records.reader import read_batches
from tests.kafka.broker import Broker
from tests.kafka.clients import QUIET, create_topic, producer
from tests.kafka.conftest import MakeBroker
from tests.kafka.test_recover import repairs
from tests.waiting import PATIENCE_S

TOPIC, KEYS, ERASED = "people", 7, b"person-3"
SMALL = {"internal.segment.bytes": "3000", "segment.index.bytes": "4096", "index.interval.bytes": "500"}
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SECRET = re.compile(rb"secret of person-3\b")
Sent = list[tuple[int, bytes, bytes]]  # offset, key, value


@pytest.mark.parametrize(
    "engine", [[], pytest.param(["--master", "local[2]"], marks=pytest.mark.deep)], ids=["threads", "spark"]
)
def test_a_broker_starts_on_what_is_left_and_serves_every_other_record(
    make_broker: MakeBroker, tmp_path: Path, engine: list[str]
) -> None:
    broker = make_broker(work=tmp_path, properties={"log.retention.ms": "-1", "log.cleaner.enable": "false"})
    create_topic(broker.bootstrap, TOPIC, config=SMALL)
    plain = [record for codec in CODECS for record in send(broker, codec)]
    committed, aborted = send_in_transactions(broker)
    broker.stop()
    log_dir, partition = broker.log_dir, broker.log_dir / f"{TOPIC}-0"
    plant_copies(log_dir, partition)
    marker = (log_dir / ".kafka_cleanshutdown").read_text()
    small_files = {path: path.read_bytes() for path in files_of_state(partition)}
    assert places(log_dir) >= {"log", "quarantine", "deleted"}

    assert run(["erase", str(log_dir), "--topic", f"{TOPIC}-0", "--key", ERASED.decode(), *engine]) == 0

    assert places(log_dir) == set()
    assert (log_dir / ".kafka_cleanshutdown").read_text() == marker
    assert {path: path.read_bytes() for path in files_of_state(partition)} == small_files
    lines = [json.loads(line) for line in (log_dir / "stratalog-erased.jsonl").read_text().splitlines()]
    told = sum(line["records_count"] for line in lines if line["what"] == "segment")
    everything = sorted([*plain, *committed, *aborted])
    assert told == len([key for _, key, _ in everything if key == ERASED]) > 0
    broker.start()
    assert not repairs(broker)
    assert broker.log_lines(r"Skipping recovery of \d+ logs")
    assert broker.wait_for_line(r"Generated 0 record\(s\)")  # the epoch told the controller of a clean stop
    assert consumed(broker, "read_uncommitted") == kept(everything)
    assert consumed(broker, "read_committed") == kept(sorted([*plain, *committed]))
    first = send(broker, "none")[0]
    assert consumed(broker, "read_committed", start=first[0])[0] == first


def test_a_producer_that_lives_through_it_goes_on_with_its_sequence(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    """Its last batches are empty now, and the broker still knows which of its batches comes next."""
    broker = make_broker(work=tmp_path, properties={"log.cleaner.enable": "false"})
    create_topic(broker.bootstrap, TOPIC, config=SMALL)
    living = producer(broker.bootstrap, enable_idempotence=True)
    before = deliver(living, [(ERASED, b"secret of person-3 %d" % number) for number in range(5)])
    broker.stop()

    assert run(["erase", str(broker.log_dir), "--topic", TOPIC, "--key", ERASED.decode()]) == 0

    broker.start()
    after = deliver(living, [(b"person-1", b"behind it %d" % number) for number in range(5)])
    assert [offset for offset, _, _ in after] == [before[-1][0] + 1 + number for number in range(5)]
    assert consumed(broker, "read_committed") == after


def send(broker: Broker, codec: str) -> Sent:
    client = producer(broker.bootstrap, compression_type=codec, linger_ms=5, enable_idempotence=True)
    return deliver(
        client,
        [
            (
                b"person-%d" % (number % KEYS),
                b"%s secret of person-%d %d" % (codec.encode(), number % KEYS, number),
            )
            for number in range(60)
        ],
    )


def send_in_transactions(broker: Broker) -> tuple[Sent, Sent]:
    client = producer(broker.bootstrap, transactional_id="erased")
    client.init_transactions(PATIENCE_S)
    found: list[Sent] = []
    for word, end in ((b"kept", client.commit_transaction), (b"lost", client.abort_transaction)) * 2:
        client.begin_transaction()
        records = [
            (b"person-%d" % number, b"%s secret of person-%d" % (word, number)) for number in range(KEYS)
        ]
        found.append(deliver(client, records))
        end(PATIENCE_S)
    return [*found[0], *found[2]], [*found[1], *found[3]]


def deliver(client: Producer, records: list[tuple[bytes, bytes]]) -> Sent:
    """Send records to partition 0; where each of them went."""
    sent: Sent = []

    def note(error: Any, message: Any) -> None:
        assert error is None, error
        sent.append((message.offset(), message.key(), message.value()))

    for key, value in records:
        client.produce(TOPIC, key=key, value=value, partition=0, on_delivery=note)
    assert client.flush(PATIENCE_S) == 0
    return sorted(sent)


def kept(records: Sent) -> Sent:
    return [record for record in records if record[1] != ERASED]


def consumed(broker: Broker, isolation: str, *, start: int = OFFSET_BEGINNING) -> Sent:
    """All records up to the partition's end, as a consumer with this isolation gets them."""
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
        **QUIET,
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(TOPIC, 0, start)])
        found: Sent = []
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            if message.error() is not None:
                assert message.error().code() == -191, message.error()  # the end of the partition
                return found
            found.append((message.offset(), message.key(), message.value()))
    finally:
        consumer.close()


def plant_copies(log_dir: Path, partition: Path) -> None:
    """The first segment as a recovery and a retention would have kept it: in quarantine, and as .deleted."""
    first = min(partition.glob("*.log"))
    quarantine = Quarantine(Disk(), log_dir)
    size = first.stat().st_size
    for wanted in (size, size - 1):
        quarantine.keep_range(
            first, partition=partition.name, file=first.name, position=0, size=wanted, reason="for the test"
        )
    (partition / f"{first.name}.deleted").write_bytes(first.read_bytes())


def files_of_state(partition: Path) -> Iterator[Path]:
    """The facts about producers, epochs and aborted transactions, none of which change."""
    for pattern in ("*.snapshot", "*.txnindex", "leader-epoch-checkpoint", "partition.metadata"):
        yield from partition.glob(pattern)


def places(log_dir: Path) -> set[str]:
    """Where the secret is, read raw and decoded, in all files below the directory."""
    found = set()
    for path in log_dir.rglob("*"):
        if path.is_file() and any(SECRET.search(data) for data in readings(path.read_bytes())):
            kind = "deleted" if path.name.endswith(".deleted") else path.suffix.lstrip(".")
            found.add("quarantine" if "quarantine" in path.name else kind)
    return found


def readings(data: bytes) -> Iterator[bytes]:
    yield data
    with suppress(CorruptRecordError):
        for batch in read_batches(data):
            for record in batch:
                yield record.value or b""


@pytest.mark.parametrize("text", [b"none secret of person-3 10", b"lost secret of person-3"])
def test_the_search_finds_what_it_looks_for(text: bytes) -> None:
    assert SECRET.search(text)
    assert not SECRET.search(text.replace(b"person-3", b"person-33"))
