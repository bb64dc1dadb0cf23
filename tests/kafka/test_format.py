"""A broker on directories that `stratalog format` has made its own: topics, ids, settings, records."""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from stratalog import NewRecord, open_log
from stratalog.cli.main import run
from stratalog.config.quorum import read_quorum_settings
from stratalog.directory.formatting.choices import FormatOptions
from stratalog.directory.formatting.format import format_directories
from stratalog.directory.formatting.releases import RELEASES, release_of
from stratalog.directory.meta_properties import read_meta_properties
from stratalog.files.disk import Disk
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.internal import encode_metadata
from stratalog.records.internal.kraft_snapshot import build_kraft_snapshot, voter
from stratalog.records.reader import read_batches
from tests.jobs.writing.sinking import write
from tests.kafka.broker import Broker
from tests.kafka.clients import QUIET, create_topic, produce, producer
from tests.kafka.jars import KafkaJars
from tests.profile import examples
from tests.waiting import PATIENCE_S

COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.3"}
SETTINGS = {"users": COMPACT, "orders": {"retention.ms": -1, "segment.bytes": 2097152}}
NewBroker = Callable[..., Broker]
# The first is a warning of every start. A controller registers itself, and a broker tells it which directory
# has a new partition; on a busy machine the controller is not ready for that yet, and is asked again.
_NO_COMPLAINT = (
    "Performing controller activation|CONTROLLER_REGISTRATION|ASSIGN_REPLICAS_TO_DIRS|AssignmentsManager"
)


@pytest.fixture
def new_broker(kafka_jars: KafkaJars, tmp_path: Path) -> Iterator[NewBroker]:
    """A broker that is not started yet, over directories that no broker has used."""
    made: list[Broker] = []

    def make(*names: str, **options: object) -> Broker:
        properties = {"log.retention.ms": "-1", **options.pop("properties", {})}  # type: ignore[dict-item]
        directories = [tmp_path / name for name in names]
        broker = Broker(
            kafka_jars,
            tmp_path / "work",
            log_dirs=directories,
            properties=properties,
            **options,  # type: ignore[arg-type]
        )
        made.append(broker)
        return broker

    yield make
    for each in made:
        each.close()


def formatted(broker: Broker, *arguments: str, settings: Mapping[str, object] = {}) -> None:
    """`stratalog format --config` with the broker's own server.properties."""
    config = broker.write_config()
    file = config.with_name("topics.json")
    file.write_text(json.dumps(settings))
    assert run(["format", "--config", str(config), "--topic-settings", str(file), *arguments]) == 0


def described(broker: Broker) -> dict[str, dict[str, str]]:
    """What kafka-topics --describe says of each topic, and of its partitions."""
    topics: dict[str, dict[str, str]] = {}
    for line in broker.tool("topics", "--describe").stdout.splitlines():
        fields = dict(re.findall(r"(\w+): ?([^\t]*)", line))
        if "TopicId" in fields:
            topics[fields["Topic"]] = fields
        elif "Partition" in fields:
            assert (fields["Leader"], fields["Isr"], fields["Replicas"]) == ("1", "1", "1"), line
    return topics


def consumed(broker: Broker, topic: str, partitions: int, count: int) -> dict[int, list[tuple[int, bytes]]]:
    """Offsets and values by partition."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "t", "enable.auto.commit": False, **QUIET}
    consumer = Consumer({**settings, "check.crcs": True})
    found: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        for seen in range(count):
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"no more records after {seen}"
            assert message.error() is None
            found[message.partition()].append((message.offset(), message.value()))
        assert consumer.poll(0.5) is None
        return dict(found)
    finally:
        consumer.close()


def check_start(broker: Broker, logs: Mapping[str, int]) -> None:
    """The broker took the stop before for a clean one: no recovery, nothing set aside, no complaint."""
    for directory, count in logs.items():
        assert broker.log_lines(rf"Skipping recovery of {count} logs from {directory} ")
    assert broker.log_lines(r"Registering a new incarnation of broker 1\..*Generated 0 record")
    assert broker.log_lines("UNCLEAN|using an unclean election|stray") == []
    complaints = broker.log_lines(r"\b(WARN|ERROR|FATAL)\b")
    assert [line for line in complaints if not re.search(_NO_COMPLAINT, line)] == []
    assert not [path for each in broker.log_dirs for path in each.glob("*-stray")]


def ids_on_disk(broker: Broker) -> dict[str, set[str]]:
    ids = defaultdict(set)
    for directory in broker.log_dirs:
        for file in directory.glob("*/partition.metadata"):
            ids[file.parent.name.rpartition("-")[0]].add(file.read_text().split("topic_id: ")[1])
    return ids


def test_a_broker_serves_what_open_log_wrote(new_broker: NewBroker) -> None:
    broker = new_broker("data")
    for name, epoch in (("orders-0", 0), ("orders-2", 7), ("users-0", 0), ("empty-0", None)):
        with open_log(broker.log_dir / name, create=True) as log:
            if epoch is not None:
                batch = build_batch([Record(0, 5, b"k", b"first")], BatchOptions())
                log.log.append_as_leader(batch, leader_epoch=epoch)
                if epoch == 0:
                    log.append_many([NewRecord(value, key=b"k") for value in (b"second", b"third")])
    formatted(broker, settings={**SETTINGS, "empty": {}})
    broker.start()

    check_start(broker, {str(broker.log_dir): 4})
    topics = described(broker)
    assert {name: fields["PartitionCount"] for name, fields in topics.items()} == {
        "orders": "3",
        "users": "1",
        "empty": "1",
    }
    assert {name: {fields["TopicId"]} for name, fields in topics.items()} == {
        name: ids for name, ids in ids_on_disk(broker).items() if name != "__cluster_metadata"
    }
    assert dict(part.split("=") for part in topics["orders"]["Configs"].split(",")) == {
        "min.insync.replicas": "1",  # of the cluster, as in every one with eligible leader replicas
        "retention.ms": "-1",
        "segment.bytes": "2097152",
    }
    users = broker.tool("configs", "--describe", "--entity-type", "topics", "--entity-name", "users").stdout
    assert {name: f"{name}={value} " in users for name, value in COMPACT.items()} == dict.fromkeys(
        COMPACT, True
    )
    assert consumed(broker, "orders", 3, 4) == {
        0: [(0, b"first"), (1, b"second"), (2, b"third")],
        2: [(0, b"first")],
    }
    client = producer(broker.bootstrap)
    for number in range(3):
        produce(client, "orders", [{"key": b"k", "value": b"new"}], partition=number)
    produce(client, "empty", [{"value": b"one"}])
    broker.restart()

    check_start(broker, {str(broker.log_dir): 6})  # with the missing partition, and __consumer_offsets
    found = consumed(broker, "orders", 3, 7)
    assert {number: records[-1] for number, records in found.items()} == {
        0: (3, b"new"),
        1: (0, b"new"),
        2: (1, b"new"),
    }
    broker.stop()
    epochs = (broker.log_dir / "orders-2" / "leader-epoch-checkpoint").read_text().split("\n")[2:]
    assert epochs[0] == "7 0"
    assert int(epochs[1].split()[0]) > 7
    assert epochs[1].split()[1] == "1"


def test_a_broker_serves_what_the_sink_wrote_to_several_directories(new_broker: NewBroker) -> None:
    broker = new_broker("a", "b", "c")
    first, second = map(str, broker.log_dirs[:2])
    keys = [b"%d" % number for number in range(300)]
    # Few rows: not every partition gets one, and the number of partitions is only in the options.
    write(first, {"key": keys, "value": keys}, topic="orders", partitions="6")
    write(first, {"key": [b"x"], "value": [b"y"]}, topic="sparse", partitions="40")
    write(second, {"key": keys, "value": keys}, topic="users", partitions="2")
    for number in (3, 4, 5):  # a topic whose partitions are in two directories
        shutil.move(f"{first}/orders-{number}", f"{second}/orders-{number}")
    assert run(["recover", "--all", first, second]) in (0, 1)
    formatted(broker, settings=SETTINGS)
    counts = {str(each): len([*each.glob("*-[0-9]*")]) - (each == broker.log_dir) for each in broker.log_dirs}
    broker.start()

    check_start(broker, {first: counts[first], second: counts[second]})
    topics = described(broker)
    assert {name: fields["PartitionCount"] for name, fields in topics.items()} == {
        "orders": "6",
        "sparse": "40",
        "users": "2",
    }
    assert all(len(ids) == 1 for ids in ids_on_disk(broker).values())
    logs = json.loads(broker.tool("log-dirs", "--describe").stdout.splitlines()[-1])
    places = {
        part["partition"]: each["logDir"]
        for each in logs["brokers"][0]["logDirs"]
        for part in each["partitions"]
    }
    assert {name: places[name] for name in ("orders-0", "orders-5", "users-1")} == {
        "orders-0": first,
        "orders-5": second,
        "users-1": second,
    }
    assert len([name for name in places if name.startswith("sparse-")]) == 40
    client = producer(broker.bootstrap, partitioner="murmur2_random")
    before = consumed(broker, "orders", 6, 300)
    for key in keys:
        client.produce("orders", key=key, value=key)
    assert client.flush(PATIENCE_S) == 0
    after = consumed(broker, "orders", 6, 600)
    # A producer sends each key where the sink has put it.
    assert {number: sorted(value for _, value in records) for number, records in after.items()} == {
        number: sorted(2 * [value for _, value in records]) for number, records in before.items()
    }
    broker.restart()
    assert broker.log_lines("UNCLEAN|stray") == []


@pytest.mark.parametrize("release", ["3.9", "4.3", "4.0"][: examples(3, quick=1, ci=1)])
def test_a_quorum_whose_voters_are_in_the_metadata(
    new_broker: NewBroker, tmp_path: Path, release: str
) -> None:
    metadata = tmp_path / "metadata"
    broker = new_broker("data", is_dynamic=True, properties={"metadata.log.dir": str(metadata)})
    write(str(broker.log_dir), {"value": [b"a", b"b"]}, topic="orders", partitions="1")
    formatted(broker, "--release", release, settings={"orders": COMPACT})
    assert not (broker.log_dir / "__cluster_metadata-0").exists()
    broker.start()

    assert broker.log_lines("UNCLEAN|stray") == []
    assert consumed(broker, "orders", 1, 2) == {0: [(0, b"a"), (1, b"b")]}
    told = broker.tool("features", "describe").stdout
    levels = dict(re.findall(r"Feature: (\S+)\s.*?FinalizedVersionLevel: (\S+)", told))
    assert levels.pop("metadata.version").startswith(f"{release}-IV")
    expected = {name: str(level) for name, level in release_of(release).features[1:]}
    assert {name: level for name, level in levels.items() if level != "0"} == {
        "kraft.version": "1",
        **expected,
    }
    produce(producer(broker.bootstrap), "orders", [{"key": b"k", "value": b"c"}])
    broker.kill()
    broker.start()
    assert consumed(broker, "orders", 1, 3)[0][-1] == (2, b"c")


def test_a_disk_whose_metadata_is_lost_is_served_again_with_its_groups(new_broker: NewBroker) -> None:
    broker = new_broker("data")
    broker.start()
    create_topic(broker.bootstrap, "orders", partitions=2)
    client = producer(broker.bootstrap, transactional_id="t")
    client.init_transactions(PATIENCE_S)
    client.begin_transaction()
    client.produce("orders", b"a", partition=0)
    client.commit_transaction(PATIENCE_S)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", **QUIET})
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    consumer.close()
    before = described(broker)
    broker.stop()
    shutil.rmtree(broker.log_dir / "__cluster_metadata-0")
    for name in ("meta.properties", "bootstrap.checkpoint"):
        (broker.log_dir / name).unlink()
    formatted(broker)
    broker.start()

    check_start(broker, {str(broker.log_dir): 4})
    after = described(broker)
    assert {name: (fields["TopicId"], fields["PartitionCount"]) for name, fields in after.items()} == {
        name: (fields["TopicId"], fields["PartitionCount"]) for name, fields in before.items()
    }
    for name in ("__consumer_offsets", "__transaction_state"):  # as the broker itself creates them
        assert sorted(after[name]["Configs"].split(",")) == sorted(before[name]["Configs"].split(","))
    groups = broker.tool("consumer-groups", "--describe", "--group", "g").stdout
    assert re.search(r"g +orders +0 +1 +2 +1 ", groups), groups


def test_a_fresh_broker_set_the_partitions_aside_and_a_format_brings_them_back(new_broker: NewBroker) -> None:
    broker = new_broker("data")
    with open_log(broker.log_dir / "orders-0", create=True) as log:
        log.append(b"a")
    assert run(["recover", str(broker.log_dir)]) == 0
    broker.start()  # formats the directory with Kafka's own tool
    (stray,) = broker.log_dir.glob("orders-0.*-stray")
    broker.stop()

    # As docs/format.md says.
    stray.rename(broker.log_dir / "orders-0")
    shutil.rmtree(broker.log_dir / "__cluster_metadata-0")
    for name in ("meta.properties", "bootstrap.checkpoint"):
        (broker.log_dir / name).unlink()
    formatted(broker)
    broker.start()

    check_start(broker, {str(broker.log_dir): 1})
    assert consumed(broker, "orders", 1, 1) == {0: [(0, b"a")]}


def test_the_features_of_each_release_are_those_of_kafkas_tool(new_broker: NewBroker) -> None:
    broker = new_broker("data", is_dynamic=True)
    for release in RELEASES:
        shutil.rmtree(broker.log_dir, ignore_errors=True)
        told = broker.storage_format(broker.write_config(), "--release-version", release).stdout
        found = re.findall(r"FeatureLevelRecord\(name='([^']*)', featureLevel=(\d+)\)", told)
        assert [(name, int(level)) for name, level in found] == list(release_of(release).features)


def test_the_files_are_those_of_kafkas_tool_byte_for_byte(new_broker: NewBroker) -> None:
    broker = new_broker("data", is_dynamic=True)
    config = broker.write_config()
    broker.storage_format(config)
    features = [
        encode_metadata("FeatureLevelRecord", {"name": name, "featureLevel": level})
        for name, level in release_of("4.3").features
    ]
    meta = read_meta_properties(Disk(), broker.log_dir)
    assert meta is not None
    assert meta.directory_id is not None
    own = voter(1, meta.directory_id, read_quorum_settings(config.read_text()).endpoints)

    for file, records, voters in (
        (broker.log_dir / "bootstrap.checkpoint", features, []),
        (broker.log_dir / "__cluster_metadata-0" / f"{0:020d}-{0:010d}.checkpoint", [], [own]),
    ):
        theirs = file.read_bytes()
        batches = [*read_batches(theirs)]
        times = iter([batch.facts.base_timestamp for batch in batches])
        (header, *_) = batches[0]
        assert header.value is not None
        last_timestamp = int.from_bytes(header.value[2:10], "big")
        ours = build_kraft_snapshot(
            records, epoch=0, last_timestamp=last_timestamp, clock=times.__next__, voters=voters
        )
        assert ours == theirs, file.name


def test_a_formatted_directory_is_refused_while_its_broker_runs_and_after(new_broker: NewBroker) -> None:
    broker = new_broker("data")
    formatted(broker)
    broker.start()
    config = str(broker.write_config())
    assert run(["format", "--config", config]) == 3
    broker.stop()
    assert run(["format", "--config", config]) == 3
    assert format_directories([broker.log_dir.with_name("new")], FormatOptions(dry_run=True)).topics == ()
