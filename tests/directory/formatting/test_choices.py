from __future__ import annotations

import pytest

from stratalog.config.quorum import Endpoint
from stratalog.directory.formatting.choices import FormatOptions
from stratalog.errors import ConfigError, UsageError
from tests.config.test_quorum import SHIPPED
from tests.directory.formatting.forming import metadata_of
from tests.fixtures.catalog import log_dirs


def from_properties(*changes: tuple[str, str]) -> FormatOptions:
    text = SHIPPED
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return FormatOptions.from_properties(text)


DYNAMIC = "controller.quorum.bootstrap.servers=localhost:9093"


def test_without_a_file_the_node_is_that_of_the_file_that_kafka_ships() -> None:
    shipped, none = from_properties(), FormatOptions()

    assert none.decided_node_id() == shipped.decided_node_id() == 1
    assert (
        none.decided_endpoints()
        == shipped.decided_endpoints()
        == (Endpoint("CONTROLLER", "localhost", 9093),)
    )


def test_voters_in_the_file_are_not_written_to_the_metadata() -> None:
    options = from_properties((DYNAMIC, "controller.quorum.voters=1@localhost:9093"))

    assert options.decided_endpoints() == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("broker,controller", "broker"), "a stand-alone broker is process.roles=broker,controller"),
        (("process.roles=broker,controller", ""), "server.properties says nothing for process.roles"),
        (("controller.listener.names=CONTROLLER", ""), "does not say where the controller listens"),
        (("node.id=1", ""), "server.properties has no node.id"),
        ((DYNAMIC, "controller.quorum.voters=1@a:1,2@b:1"), "names 1, 2, but a stand-alone broker has one"),
        ((DYNAMIC, "controller.quorum.voters=2@a:1"), r"has one voter, itself \(1\)"),
    ],
)
def test_a_broker_that_would_not_stand_alone_is_refused(change: tuple[str, str], words: str) -> None:
    options = from_properties(change)

    with pytest.raises(UsageError, match=words):
        options.decided_node_id() and options.decided_endpoints()


def test_options_that_contradict_the_file_are_refused() -> None:
    own = from_properties((DYNAMIC, "controller.quorum.voters=1@localhost:9093"))
    with pytest.raises(UsageError, match=r"is given as 2, but server\.properties says 1"):
        FormatOptions(node_id=2, quorum=own.quorum).decided_node_id()
    with pytest.raises(UsageError, match="leave the option for it out"):
        FormatOptions(quorum=own.quorum, controller=Endpoint("C", "h", 1)).decided_endpoints()
    with pytest.raises(UsageError, match=r"kafka-storage\.sh random-uuid"):
        FormatOptions(cluster_id="my-cluster").checked_cluster_id()


def test_settings_are_text_as_kafka_writes_it() -> None:
    options = FormatOptions(
        topic_settings='{"a": {"preallocate": true, "cleanup.policy": ["compact", "delete"], '
        '"retention.ms": -1, "min.cleanable.dirty.ratio": 0.25, "compression.type": "zstd"}}'
    )

    assert options.settings()["a"] == {
        "preallocate": "true",
        "cleanup.policy": "compact,delete",
        "retention.ms": "-1",
        "min.cleanable.dirty.ratio": "0.25",
        "compression.type": "zstd",
    }


def test_kafkas_own_topics_have_the_settings_that_a_broker_gives_them() -> None:
    options = FormatOptions(topic_settings='{"__consumer_offsets": {"segment.bytes": 1048576}}')

    assert options.settings()["__consumer_offsets"] == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "1048576",
    }
    real = metadata_of(log_dirs("4.3.1", "clean")[0]).topic_configs
    assert FormatOptions().settings() == {
        name: settings for name, settings in real.items() if name.startswith("__")
    }


def test_a_setting_that_only_a_broker_can_have_is_refused() -> None:
    options = FormatOptions(topic_settings='{"a": {"transaction.max.timeout.ms": 1000}}')

    with pytest.raises(ConfigError, match="only a broker can have it"):
        options.settings()


def test_the_number_of_partitions_is_the_largest_that_is_known() -> None:
    options = FormatOptions(partitions={"a": 6, "zero": 0})

    assert options.partitions_of("a", 2, 4) == 6
    assert options.partitions_of("b", 2, 4) == 4
    assert options.partitions_of("b", 5, 4) == 5
    assert options.partitions_of("__consumer_offsets", 3, 0) == 50
    assert (
        from_properties(("node.id=1", "node.id=1\noffsets.topic.num.partitions=7")).partitions_of(
            "__consumer_offsets", 3, 0
        )
        == 7
    )
    with pytest.raises(UsageError, match=r"a cannot have 6 partitions: a-6 exists\. Give 7 or more"):
        options.partitions_of("a", 7, 0)
    with pytest.raises(UsageError, match="cannot have 0 partitions"):
        options.partitions_of("zero", 0, 0)
