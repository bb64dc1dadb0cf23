"""A topic's settings over its broker's, from a cluster's metadata or a user's file."""

from __future__ import annotations

import pytest

from stratalog.config import read_server_properties
from stratalog.directory.cluster_metadata import METADATA_DIRECTORY, ClusterMetadata, read_cluster_metadata
from stratalog.directory.topic_configs import TopicConfigs
from stratalog.errors import ConfigError, UsageError
from stratalog.files.disk import Disk
from tests.fixtures.catalog import log_dirs


def test_the_topics_of_a_cluster_have_their_settings_over_the_broker_s() -> None:
    (clean,) = log_dirs("4.3.1", "clean")
    server = read_server_properties("log.index.interval.bytes=512\nlog.retention.hours=1\n")

    configs = TopicConfigs.from_metadata(
        read_cluster_metadata(Disk(), clean / METADATA_DIRECTORY), server=server
    )

    assert configs.of("rolled").segment_size == 1500
    assert configs.of("logappend").message_timestamp_type == "LogAppendTime"
    assert configs.of("compacted").compact
    assert not configs.of("txn").compact
    assert {configs.of(name).index_interval_bytes for name in ("rolled", "txn", "unheard-of")} == {512}
    assert configs.of("txn").retention_ms == 3_600_000
    assert configs.notes == []


def test_dynamic_settings_of_all_brokers_and_of_this_one_come_between() -> None:
    metadata = ClusterMetadata(
        broker_configs={
            "": {"log.retention.ms": "1000", "log.segment.delete.delay.ms": "5"},
            "7": {"log.retention.ms": "2000", "listeners": "PLAINTEXT://:9092"},
            "8": {"log.retention.ms": "3000"},
        },
        topic_configs={"a": {"retention.ms": "4000"}},
    )

    configs = TopicConfigs.from_metadata(metadata, node_id=7)

    assert (configs.of("a").retention_ms, configs.of("b").retention_ms) == (4000, 2000)
    assert configs.of("a").file_delete_delay_ms == 5


def test_a_setting_of_a_cluster_that_kafka_4_3_1_does_not_know_is_noted_and_passed_over() -> None:
    metadata = ClusterMetadata(topic_configs={"a": {"of.the.future": "x", "retention.ms": "7"}})

    configs = TopicConfigs.from_metadata(metadata)

    assert configs.of("a").retention_ms == 7
    (note,) = configs.notes
    assert "topic a: of.the.future" in note


def test_a_user_s_file_goes_over_the_cluster_s_settings() -> None:
    metadata = ClusterMetadata(topic_configs={"a": {"retention.ms": "7", "segment.ms": "9"}})
    configs = TopicConfigs.from_metadata(metadata)

    over = configs.with_file('{"a": {"retention.ms": 8}, "b": {"cleanup.policy": "compact"}}')

    assert (over.of("a").retention_ms, over.of("a").segment_ms) == (8, 9)
    assert over.of("b").compact
    assert configs.of("a").retention_ms == 7


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("not json", UsageError),
        ("[1]", UsageError),
        ('{"a": 1}', UsageError),
        ('{"no/topic": {}}', UsageError),
        ('{"a": {"retention.days": 1}}', ConfigError),
        ('{"a": {"retention.ms": "soon"}}', ConfigError),
    ],
)
def test_what_is_wrong_in_a_user_s_file_is_an_error(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        TopicConfigs().with_file(text)


def test_new_settings_take_the_place_of_the_old_ones() -> None:
    configs = TopicConfigs(overrides={"a": {"retention.ms": 1, "segment.ms": 2}})

    assert configs.update("a", {"retention.ms": 3}).retention_ms == 3
    assert configs.of("a").segment_ms == configs.defaults.segment_ms
