"""A broker cannot tell our partition directories from its own.

One broker and eleven topics. Into one of them real clients produce, and our log, given the same batches as a
follower, has the same files. The directories of the other ten are replaced by ours while the broker is
stopped; it then loads them without recovery or complaint, serves every record and goes on writing.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, Message, TopicPartition

from stratalog.clock import system_clock
from stratalog.config import LogConfig
from stratalog.directory.clean_shutdown import CleanShutdownFile
from stratalog.directory.clean_state import CleanState
from stratalog.files import names
from stratalog.files.disk import Disk
from stratalog.log import loader
from stratalog.log.checkpoint_file import OffsetCheckpointFile
from stratalog.log.log import Log
from stratalog.log.origin import AppendOrigin
from stratalog.log.scheduler import BackgroundScheduler
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.records.control import ControlType, EndTxnMarker
from tests.fixtures.records import consumer, texts, transactions
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic, produce, producer
from tests.kafka.directories import compare_files
from tests.kafka.jars import KafkaJars
from tests.waiting import PATIENCE_S

CONFIG = {"internal.segment.bytes": "3000", "index.interval.bytes": "200", "retention.ms": "-1"}
TOPICS = [f"{codec.kafka_name}-{kind}" for codec in Codec for kind in ("plain", "transactions")]
FROM_CLIENTS = "from-clients"
BATCHES = 40
T0 = 1_700_000_000_000
LEADER_EPOCH = 0  # the controller's for a new topic; each restart raises it
# The log lines of a broker that changes a log while loading it.
REPAIRS = r"(?i)recovering|rebuilding index|corrupt|truncat|deleting|could not find"


@dataclass(slots=True)
class Written:
    """What was appended to our log: every record, and those that were not aborted."""

    all: list[Record] = field(default_factory=list)
    committed: list[Record] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A running broker over our directories, what we wrote, and the files as we left them."""

    broker: Broker
    written: dict[str, Written]
    files: dict[Path, bytes]
    replicas: Path  # with Kafka's and our directory of the topic that clients wrote


@pytest.fixture(scope="module")
def served(kafka_jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    work = tmp_path_factory.mktemp("serve")
    properties = {"log.index.size.max.bytes": "4096", "log.cleaner.dedupe.buffer.size": "2097152"}
    with Broker(kafka_jars, work / "broker", properties=properties) as broker:
        for topic in (*TOPICS, FROM_CLIENTS):
            create_topic(broker.bootstrap, topic, config=CONFIG)
        produce_by_clients(broker)
        broker.stop()
        folder = f"{FROM_CLIENTS}-0"
        shutil.copytree(broker.log_dir / folder, work / "kafka" / folder)
        replicate(work / "kafka" / folder, work / "ours" / folder)
        written = {topic: replace_directory(broker.log_dir / f"{topic}-0", topic) for topic in TOPICS}
        leave_as_after_a_clean_shutdown(broker.log_dir)
        files = {
            path: path.read_bytes() for topic in TOPICS for path in (broker.log_dir / f"{topic}-0").iterdir()
        }
        broker.start()
        yield Served(broker=broker, written=written, files=files, replicas=work)


def test_what_clients_made_a_broker_write_we_write_as_its_follower(served: Served) -> None:
    folder = f"{FROM_CLIENTS}-0"

    compare_files(served.replicas / "kafka" / folder, served.replicas / "ours" / folder)


def test_the_broker_loads_our_logs_without_recovery(served: Served) -> None:
    broker = served.broker

    assert broker.log_lines("Skipping recovery of .* clean shutdown file was found")
    assert not broker.log_lines(r"Recovering \d+ logs")
    for topic in TOPICS:
        assert broker.log_lines(rf"Completed load of Log\(dir=\S*/{topic}-0,.* with [2-9]\d* segments")
        # From the snapshot alone: no batch is read again.
        (replayed,) = broker.log_lines(rf"partition={topic}-0, .*rebuilding producer state from offset")
        assert f"from offset {end_of(broker.log_dir / f'{topic}-0')} " in replayed
        assert [line for line in broker.log_lines(REPAIRS) if f"{topic}-0" in line] == []


def test_the_broker_says_no_word_of_warning_about_our_logs(served: Served) -> None:
    lines = served.broker.log_lines(r"\] (WARN|ERROR|FATAL) ")

    assert [line for line in lines if any(topic in line for topic in TOPICS) or "Log" in line] == []


def test_the_broker_changes_no_closed_segment_of_ours(served: Served) -> None:
    # The indexes of the active segment grow again to their full size, and a new leader's epoch is noted.
    active = {max(path.parent.glob("*.log")).stem for path in served.files}
    kept = {
        path: data
        for path, data in served.files.items()
        if path.suffix == ".log" or (path.suffix.endswith("index") and path.stem not in active)
    }

    assert len([path for path in kept if path.suffix == ".index"]) > len(TOPICS)
    assert {path: path.read_bytes() for path in kept} == kept


def test_a_consumer_reads_every_record(served: Served) -> None:
    found = consumed(served.broker, TOPICS, "read_uncommitted")

    assert found == {topic: written.all for topic, written in served.written.items()}


def test_a_consumer_of_committed_records_reads_no_aborted_one(served: Served) -> None:
    found = consumed(served.broker, TOPICS, "read_committed")

    assert found == {topic: written.committed for topic, written in served.written.items()}


def test_the_broker_goes_on_writing_where_we_ended(served: Served) -> None:
    topic = TOPICS[-1]
    produce(producer(served.broker.bootstrap, enable_idempotence=True), topic, [{"value": b"one more"}])

    records = consumed(served.broker, [topic], "read_committed")[topic]

    assert records[:-1] == served.written[topic].committed
    assert records[-1].value == b"one more"


def produce_by_clients(broker: Broker) -> None:
    for codec in Codec:
        client = producer(
            broker.bootstrap, enable_idempotence=True, compression_type=codec.kafka_name, linger_ms=50
        )
        produce(client, FROM_CLIENTS, texts(f"{codec.kafka_name} ", 60), batch=5)
    client = producer(broker.bootstrap, transactional_id="transactions")
    client.init_transactions(PATIENCE_S)
    transactions(client, FROM_CLIENTS, "caac")


def replicate(theirs: Path, ours: Path) -> None:
    """The batches of Kafka's log, each appended as a follower would."""
    ours.mkdir(parents=True)
    shutil.copy(theirs / names.PARTITION_METADATA, ours)

    def append(log: Log) -> None:
        for file in sorted(theirs.glob("*.log")):
            for batch in split(file.read_bytes()):
                log.append_as_follower(batch, leader_epoch=LEADER_EPOCH)

    write_log(ours, append)


def split(data: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        end = position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        yield data[position:end]
        position = end


def replace_directory(directory: Path, topic: str) -> Written:
    """An empty partition of the broker is replaced by one of ours; its topic id stays."""
    metadata = (directory / names.PARTITION_METADATA).read_bytes()
    shutil.rmtree(directory)
    directory.mkdir()
    (directory / names.PARTITION_METADATA).write_bytes(metadata)
    codec = next(codec for codec in Codec if topic.startswith(f"{codec.kafka_name}-"))
    written = Written()
    if topic.endswith("transactions"):
        write_log(directory, lambda log: append_transactions(log, codec, written))
    else:
        write_log(directory, lambda log: append_plain(log, codec, written))
    return written


def write_log(directory: Path, append: Callable[[Log], None]) -> None:
    disk, scheduler = Disk(), BackgroundScheduler()
    log = loader.load(
        disk=disk,
        clock=system_clock,
        scheduler=scheduler,
        directory=directory,
        topic_partition=names.TopicPartition(directory.name.removesuffix("-0"), 0),
        config=LogConfig.of({**CONFIG, "segment.index.bytes": "4096"}),
    )
    append(log)
    scheduler.close()
    log.close()
    disk.close()


def append_plain(log: Log, codec: Codec, written: Written) -> None:
    for number in range(BATCHES):
        append_records(log, number, BatchOptions(codec=codec), written.all)
    written.committed.extend(written.all)


def append_transactions(log: Log, codec: Codec, written: Written) -> None:
    """Two producers take turns; every second transaction of each is taken back."""
    open_records: dict[int, list[Record]] = {7: [], 8: []}
    sequences = {7: 0, 8: 0}
    for number in range(BATCHES):
        producer_id = 7 + number % 2
        options = BatchOptions(
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequences[producer_id],
            is_transactional=True,
        )
        appended = append_records(log, number, options, written.all)
        sequences[producer_id] += len(appended)
        open_records[producer_id] += appended
        if number % 6 >= 4:
            kind = ControlType.COMMIT if number % 12 >= 6 else ControlType.ABORT
            append_marker(log, producer_id, kind)
            if kind is ControlType.COMMIT:
                written.committed += open_records[producer_id]
            open_records[producer_id] = []
    for producer_id, left in open_records.items():
        append_marker(log, producer_id, ControlType.COMMIT)
        written.committed += left
    written.committed.sort()


def append_records(log: Log, number: int, options: BatchOptions, written: list[Record]) -> list[Record]:
    records = [
        Record(
            i,
            T0 + number,
            b"key %d" % i,
            b"value %d of batch %d " % (i, number) * 5,
            (("n", b"%d" % number),),
        )
        for i in range(number % 5 + 1)
    ]
    info = log.append_as_leader(build_batch(records, options), leader_epoch=LEADER_EPOCH)
    appended = [record._replace(offset=info.first_offset + record.offset) for record in records]
    written.extend(appended)
    return appended


def append_marker(log: Log, producer_id: int, kind: ControlType) -> None:
    marker = EndTxnMarker(kind, coordinator_epoch=0)
    options = BatchOptions(producer_id=producer_id, producer_epoch=0, is_transactional=True, is_control=True)
    record = Record(0, T0, marker.key_bytes(), marker.value_bytes())
    log.append_as_leader(
        build_batch([record], options),
        leader_epoch=LEADER_EPOCH,
        origin=AppendOrigin.COORDINATOR,
        transaction_version=0,
    )


def leave_as_after_a_clean_shutdown(log_dir: Path) -> None:
    """The marks of our logs among those of the broker's, and its own clean-shutdown file, written by us."""
    disk = Disk()
    ends = {names.TopicPartition(topic, 0): end_of(log_dir / f"{topic}-0") for topic in TOPICS}
    for name in (names.RECOVERY_POINT_CHECKPOINT, names.REPLICATION_OFFSET_CHECKPOINT):
        checkpoint = OffsetCheckpointFile(disk, log_dir / name)
        checkpoint.write(checkpoint.read() | ends)
    file = CleanShutdownFile(disk, log_dir)
    content = file.read()
    assert content.has_epoch
    CleanState(disk, str(log_dir)).put_back(content)
    disk.close()


def end_of(directory: Path) -> int:
    """Where a closed log ends: its newest snapshot says it."""
    return max(int(snapshot.stem) for snapshot in directory.glob("*.snapshot"))


def consumed(broker: Broker, topics: list[str], isolation: str) -> dict[str, list[Record]]:
    """Every record of these topics, up to the end of each."""
    client = consumer(broker.bootstrap, "serve", isolation_level=isolation, enable_partition_eof=True)
    client.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in topics])
    found: dict[str, list[Record]] = {topic: [] for topic in topics}
    unfinished = set(topics)
    end = time.monotonic() + PATIENCE_S
    while unfinished:
        assert time.monotonic() < end, f"{unfinished} were not read to their ends"
        message = client.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found[message.topic()].append(record_of(message))
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            unfinished.discard(message.topic())
    client.close()
    return found


def record_of(message: Message) -> Record:
    _, timestamp = message.timestamp()
    headers = tuple(message.headers() or ())
    return Record(message.offset(), timestamp, message.key(), message.value(), headers)
