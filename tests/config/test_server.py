"""A broker's server.properties: settings of storage, and those of older releases."""

from __future__ import annotations

import pytest

from stratalog.config import read_server_properties
from stratalog.errors import ConfigError


def test_a_brokers_file_is_read_for_storage_alone() -> None:
    manager, log, notes = read_server_properties(
        """
        node.id=1
        ssl.keystore.password=hunter2
        log.dirs=/data/a, /data/b
        log.dir=/ignored
        num.recovery.threads.per.data.dir=8
        log.segment.bytes=536870912
        log.cleanup.policy=compact
        """
    )

    assert manager.log_dirs == ("/data/a", "/data/b")
    assert manager.num_recovery_threads_per_data_dir == 8
    assert (log.segment_bytes, log.cleanup_policy) == (536870912, {"compact"})
    assert notes == ()
    assert "hunter2" not in repr((manager, log, notes))


@pytest.mark.parametrize(
    ("text", "retention_ms"),
    [
        ("", 604_800_000),
        ("log.retention.hours=2", 7_200_000),
        ("log.retention.hours=2\nlog.retention.minutes=3", 180_000),
        ("log.retention.hours=2\nlog.retention.minutes=3\nlog.retention.ms=4", 4),
        ("log.retention.hours=-1", -1),
        ("log.retention.minutes=-7", -1),
    ],
)
def test_the_finer_unit_of_retention_wins(text: str, retention_ms: int) -> None:
    assert read_server_properties(text).log.retention_ms == retention_ms


def test_other_synonyms_have_their_order_too() -> None:
    log = read_server_properties(
        "log.roll.hours=1\nlog.roll.jitter.hours=2\nlog.roll.jitter.ms=5\nlog.flush.scheduler.interval.ms=9"
    ).log

    assert (log.segment_ms, log.segment_jitter_ms, log.flush_ms) == (3_600_000, 5, 9)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.retention.hours", "0"),
        ("log.roll.hours", "0"),
        ("log.segment.bytes", "13"),
        ("log.segment.bytes", "many"),
        ("log.cleaner.threads", "-1"),
    ],
)
def test_an_impossible_value_of_a_broker_is_refused_under_the_brokers_name(name: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_server_properties(f"{name}={text}")

    assert caught.value.key == name


def test_a_directory_without_a_path_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"log\.dirs"):
        read_server_properties("log.dirs=/a,,/b")


def test_a_small_segment_of_an_older_release_is_used_with_a_note() -> None:
    _, log, notes = read_server_properties("log.segment.bytes=65536")

    assert log.segment_size == 65536
    assert len(notes) == 1
    assert "log.segment.bytes = 65536" in notes[0]


def test_settings_that_kafka_4_removed_are_noted() -> None:
    _, log, notes = read_server_properties(
        "log.message.format.version=2.8\nlog.message.timestamp.difference.max.ms=77\n"
        "log.message.timestamp.after.max.ms=5"
    )

    assert (log.message_timestamp_before_max_ms, log.message_timestamp_after_max_ms) == (77, 5)
    assert [note.split()[0] for note in notes] == [
        "log.message.timestamp.difference.max.ms",
        "log.message.format.version",
    ]
