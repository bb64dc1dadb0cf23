"""Ten healthy nodes, as brokers of 4.3.1, Kafka's tools and Stratalog leave them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from stratalog import format_directories, open_log
from stratalog.cli.main import run
from tests.directory.refused import with_second
from tests.fixtures import catalog
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic, delete_topic, produce, producer
from tests.kafka.jars import KafkaJars
from tests.manager.running import contents
from tests.waiting import until

Healthy = Callable[[KafkaJars, Path], list[Path]]
SMALL = {"internal.segment.bytes": "4000", "index.interval.bytes": "300"}


def copied(state: str) -> Healthy:
    def make(_jars: KafkaJars, work: Path) -> list[Path]:
        (source,) = catalog.log_dirs("4.3.1", state)
        return [Path(shutil.copytree(source, work / "data"))]

    return make


def in_two(jars: KafkaJars, work: Path) -> list[Path]:
    (first,) = copied("clean")(jars, work)
    return [first, with_second(first)]


def used(jars: KafkaJars, work: Path, *, is_killed: bool = False) -> list[Path]:
    """Of a new broker with two directories, a topic that is compacted, and one that was deleted."""
    directories = [work / "first", work / "second"]
    with Broker(jars, work / "before", log_dirs=directories) as broker:
        for topic in ("orders", "latest", "gone"):
            config = {**SMALL, "cleanup.policy": "compact"} if topic == "latest" else SMALL
            create_topic(broker.bootstrap, topic, partitions=3, config=config)
            client = producer(broker.bootstrap, compression_type="lz4")
            records = [{"key": b"%d" % (number % 7), "value": bytes(100)} for number in range(200)]
            produce(client, topic, records, batch=9)
        delete_topic(broker.bootstrap, "gone")
        # A broker that is killed before it has renamed the directories calls them stray at its next start.
        until(lambda: not [path for each in directories for path in each.glob("gone-?")])
        broker.kill() if is_killed else broker.stop()
    return directories


def killed_while_in_use(jars: KafkaJars, work: Path) -> list[Path]:
    return used(jars, work, is_killed=True)


def formatted_by_kafka(jars: KafkaJars, work: Path) -> list[Path]:
    """Never used by a broker."""
    broker = Broker(jars, work / "before", log_dirs=[work / "first", work / "second"])
    broker.storage_format(broker.write_config())
    return broker.log_dirs


def formatted_by_us(_jars: KafkaJars, work: Path) -> list[Path]:
    """A log that no broker had."""
    with open_log(work / "data" / "orders-0", create=True) as log:
        log.append(b"a")
    format_directories([work / "data"])
    return [work / "data"]


def changed(state: str, *command: str) -> Healthy:
    """A command of ours has changed it."""

    def make(jars: KafkaJars, work: Path) -> list[Path]:
        (directory,) = copied(state)(jars, work)
        config = work / "server.properties"
        config.write_text(f"log.dirs={directory}\n")
        before = contents(directory)
        assert run([*command, "--config", str(config)]) in (0, 1)
        assert contents(directory) != before
        return [directory]

    return make


def without_indexes(jars: KafkaJars, work: Path) -> list[Path]:
    """A broker rebuilds them, and needs no snapshot of producers either."""
    (directory,) = copied("clean")(jars, work)
    for pattern in ("*-0/*.index", "*-0/*.timeindex", "*-0/*.snapshot"):
        for path in directory.glob(pattern):
            path.unlink()
    return [directory]


HEALTHY: dict[str, Healthy] = {
    "stopped": copied("clean"),
    "killed": copied("killed"),
    "stopped with two directories": in_two,
    "stopped after use": used,
    "killed while in use": killed_while_in_use,
    "formatted by kafka-storage": formatted_by_kafka,
    "formatted by stratalog": formatted_by_us,
    "recovered by stratalog": changed("killed", "recover"),
    "after retention by stratalog": changed("clean", "retain", "--purge"),
    "without indexes": without_indexes,
}
