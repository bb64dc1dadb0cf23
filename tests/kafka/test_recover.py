"""`stratalog recover` on a killed broker's directories, and the broker that starts on them afterwards."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from stratalog.cli.main import run
from stratalog.files.lock import DirectoryLock
from tests import profile
from tests.kafka.broker import Broker
from tests.kafka.clients import QUIET, create_topic, produce, producer
from tests.kafka.conftest import MakeBroker
from tests.kafka.jars import WITH_LEGACY_FORMATS, KafkaJars
from tests.kafka.java import JavaProgram
from tests.kafka.tools import KafkaError
from tests.waiting import PATIENCE_S, until

TOPIC = "orders"
CONFIG = {"internal.segment.bytes": "20000", "index.interval.bytes": "200", "segment.index.bytes": "4096"}
OLD_CONFIG = {"segment.bytes": "20000", "index.interval.bytes": "200"}
START_MS = 1_700_000_000_000
STEP_MS = 1000
COUNT = 600
SECONDS = (0, 1, 299, COUNT - 1)  # at these, times are looked up; a record's second is its offset
ENDS = (Broker.kill, Broker.stop)
OLDER = [(release, end) for release in ("2.4.1", "2.8.2", "3.9.2") for end in ENDS]
if profile.current() != profile.DEEP:
    OLDER = [(WITH_LEGACY_FORMATS, Broker.kill)]
PROPERTIES = {"log.index.size.max.bytes": "4096", "log.retention.ms": "-1"}

# What a broker says when it scans a segment, rebuilds an index or finds something amiss while it loads logs.
REPAIRS = (
    r"Recovering unflushed segment|rebuilding index|Found (a corrupted|an orphaned|invalid)|Corruption found"
)
# The controller accepts a cleanly stopped replica as one with every committed record.
HAS_ALL = r"Setting new leader .* using ELR\. Previous partition: .* elr=\[1\]"


def test_a_broker_starts_on_a_recovered_directory_as_after_a_clean_stop(
    make_broker: MakeBroker, kafka_jars: KafkaJars, tmp_path: Path
) -> None:
    broker = make_broker(work=tmp_path, properties=PROPERTIES)
    create_topic(broker.bootstrap, TOPIC, partitions=2, config=CONFIG)
    sent = send(broker, 0) + send_in_transactions(broker, COUNT)
    broker.kill()
    ends = ends_by_kafkas_own_recovery(kafka_jars, broker.log_dir, tmp_path / "copy")
    metadata = tree(broker.log_dir / "__cluster_metadata-0")

    assert run(["recover", "--config", str(tmp_path / "server.properties")]) in (0, 1)
    assert tree(broker.log_dir / "__cluster_metadata-0") == metadata

    broker.start()
    assert not repairs(broker)
    assert broker.log_lines(r"Skipping recovery of \d+ logs")
    # It was killed, and nothing but the page cache vouches for the last records: the controller must know.
    assert broker.wait_for_line(r"Setting new leader .*, partition 0 to 1 ")
    assert not broker.log_lines(HAS_ALL)
    assert consumed(broker, len(sent)) == sent
    assert log_ends(broker) == {TOPIC: ends[f"{TOPIC}-0"]}
    assert times_found(broker) == list(SECONDS)


def test_a_stated_process_crash_is_a_clean_stop_to_the_controller(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    broker = make_broker(work=tmp_path, properties=PROPERTIES)
    create_topic(broker.bootstrap, TOPIC, config=CONFIG)
    sent = send(broker, 0)
    broker.kill()

    assert run(["recover", "--process-crash", "--config", str(tmp_path / "server.properties")]) in (0, 1)

    broker.start()
    assert not repairs(broker)
    assert broker.wait_for_line(HAS_ALL)
    assert consumed(broker, len(sent)) == sent


@pytest.mark.deep  # tests/log/recovery/test_run.py shows the same without a broker
def test_a_log_that_retention_has_emptied_gave_findings_after_every_second_clean_stop(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    broker = make_broker(work=tmp_path, properties=PROPERTIES | {"log.retention.check.interval.ms": "200"})
    create_topic(broker.bootstrap, TOPIC, config=CONFIG | {"retention.ms": "1", "file.delete.delay.ms": "0"})
    send(broker, 0)
    emptied = broker.log_dir / f"{TOPIC}-0" / f"{COUNT:020d}.log"
    until(lambda: emptied.exists() and len([*emptied.parent.glob("*.log")]) == 1)

    snapshots = set()
    for _ in range(3):
        broker.stop()
        snapshots.add(emptied.with_suffix(".snapshot").exists())
        assert run(["recover", "--config", str(tmp_path / "server.properties")]) == 0
        broker.start()

    assert snapshots == {True, False}


def test_a_live_brokers_directory_is_refused_and_the_broker_is_not_disturbed(
    make_broker: MakeBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = make_broker(work=tmp_path, properties=PROPERTIES)
    create_topic(broker.bootstrap, TOPIC, config=CONFIG)
    sent = send(broker, 0)

    for options in ([], ["--dry-run"]):
        assert run(["recover", *options, str(broker.log_dir)]) == 3
        assert "is using this directory" in capsys.readouterr().err

    assert consumed(broker, len(sent)) == sent
    assert not broker.log_lines(r"\b(WARN|ERROR)\b.*log dir")


def test_a_broker_does_not_start_over_a_directory_held_here(make_broker: MakeBroker, tmp_path: Path) -> None:
    broker = make_broker(work=tmp_path, properties=PROPERTIES)
    broker.stop()

    with DirectoryLock(broker.log_dir):
        os.close(os.open(broker.log_dir / ".lock", os.O_RDONLY))
        with pytest.raises(KafkaError, match="did not start"):
            broker.start()
        assert broker.log_lines("Failed to acquire lock on file .lock")
    broker.start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a broker as another user")
def test_another_users_broker_starts_after_root_recovered_its_directory(
    kafka_jars: KafkaJars, open_folder: Path
) -> None:
    jars = KafkaJars(release=kafka_jars.release, folder=open_folder / "jars", java=kafka_jars.java)
    shutil.copytree(kafka_jars.folder, jars.folder)
    with Broker(kafka_jars, open_folder / "work", properties=PROPERTIES) as broker:
        create_topic(broker.bootstrap, TOPIC, config=CONFIG)
        sent = send(broker, 0)
        broker.kill()
    give_away(open_folder)

    assert run(["recover", str(broker.log_dir)]) in (0, 1)

    as_nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    theirs = Broker(jars, open_folder / "work", properties=PROPERTIES, run_with=as_nobody)
    with theirs:
        assert not repairs(theirs)
        assert consumed(theirs, len(sent)) == sent
        produce(producer(theirs.bootstrap), TOPIC, [{"value": b"theirs"}])
        assert consumed(theirs, len(sent) + 1)[-1][1] == b"theirs"


@pytest.mark.parametrize(("release", "end"), OLDER)
def test_an_older_release_starts_on_its_recovered_directory(
    make_broker: MakeBroker, tmp_path: Path, release: str, end: Callable[[Broker], None]
) -> None:
    broker = make_broker(release=release, work=tmp_path, properties=PROPERTIES)
    create_topic(broker.bootstrap, TOPIC, config=OLD_CONFIG)
    sent = send(broker, 0)
    end(broker)

    assert run(["recover", "--config", str(tmp_path / "server.properties")]) in (0, 1)

    broker.start()
    assert not repairs(broker)
    assert consumed(broker, len(sent)) == sent
    assert times_found(broker) == list(SECONDS)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def give_away(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if "jars" not in path.parts:
            os.chown(path, 65534, 65534)


def repairs(broker: Broker) -> list[str]:
    """Lines of the latest start about a scan or a repair; the metadata log always has one."""
    return [line for line in broker.log_lines(REPAIRS) if "__cluster_metadata-0" not in line]


def send(broker: Broker, first: int) -> list[tuple[int, bytes]]:
    """(offset, value) of records a second apart, sent to partition 0."""
    client = producer(broker.bootstrap, compression_type="lz4", enable_idempotence=True)
    values = [b"%d" % number * 20 for number in range(first, first + COUNT)]
    records = [
        {"key": b"k", "value": value, "timestamp": START_MS + (first + number) * STEP_MS}
        for number, value in enumerate(values)
    ]
    produce(client, TOPIC, records, batch=7)
    return list(enumerate(values, start=first))


def send_in_transactions(broker: Broker, first: int) -> list[tuple[int, bytes]]:
    """(offset, value) of a committed transaction, followed by an aborted and an open one."""
    client = producer(broker.bootstrap, transactional_id="t")
    client.init_transactions(PATIENCE_S)
    for end in (client.commit_transaction, client.abort_transaction, None):
        client.begin_transaction()
        produce(client, TOPIC, [{"value": b"in a transaction"}] * 3)
        if end:
            end(PATIENCE_S)
    return [(first + number, b"in a transaction") for number in range(3)]


def consumed(broker: Broker, count: int) -> list[tuple[int, bytes]]:
    """(offset, value) of the first records of partition 0, committed ones only."""
    consumer = new_consumer(broker)
    found: list[tuple[int, bytes]] = []
    try:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        while len(found) < count:
            message: Message | None = consumer.poll(PATIENCE_S)
            assert message is not None, f"no more records after {len(found)}"
            assert message.error() is None
            found.append((message.offset(), message.value()))
        return found
    finally:
        consumer.close()


def log_ends(broker: Broker) -> dict[str, int]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET})
    (asked,) = admin.list_offsets({TopicPartition(TOPIC, 0): OffsetSpec.latest()}).values()
    return {TOPIC: asked.result(PATIENCE_S).offset}


def times_found(broker: Broker) -> list[int]:
    """The offsets of the first records at some times."""
    consumer = new_consumer(broker)
    try:
        asked = [TopicPartition(TOPIC, 0, START_MS + second * STEP_MS) for second in SECONDS]
        return [consumer.offsets_for_times([each], timeout=PATIENCE_S)[0].offset for each in asked]
    finally:
        consumer.close()


def new_consumer(broker: Broker) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "test",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **QUIET,
        }
    )


def ends_by_kafkas_own_recovery(jars: KafkaJars, directory: Path, copy: Path) -> dict[str, int]:
    """Log end offsets of all partitions after Kafka recovered a copy of the directory."""
    shutil.copytree(directory, copy, ignore=shutil.ignore_patterns(".lock"))
    with JavaProgram(jars, "RecoveryOracle") as kafka:
        given = {"dirs": [str(copy)], "broker": PROPERTIES, "topics": {TOPIC: CONFIG}, "epoch": 1}
        answer = json.loads(kafka.ask(json.dumps(given)))
    assert answer.get("offline") == [], answer
    return {partition: marks["logEnd"] for partition, marks in answer["logs"].items()}


def tree(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}
