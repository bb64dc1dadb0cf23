"""The settings of a log and of log directories, against Kafka's own definitions."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from stratalog.config import LogConfig, ManagerConfig
from stratalog.config.keys import ConfigKey, config_keys
from stratalog.errors import ConfigError
from tests import source_trees
from tests.source_trees import nodes

# Printed from LogConfig.configDefCopy(): name, type, default, validator.
TOPIC_DEFINITIONS = """
cleanup.policy|LIST|[delete]|[compact, delete]
compression.gzip.level|INT|-1|[1,...,9] or -1
compression.lz4.level|INT|9|[1,...,17]
compression.type|STRING|producer|[uncompressed, zstd, lz4, snappy, gzip, producer]
compression.zstd.level|INT|3|[-131072,...,22]
delete.retention.ms|LONG|86400000|[0,...]
file.delete.delay.ms|LONG|60000|[0,...]
flush.messages|LONG|9223372036854775807|[1,...]
flush.ms|LONG|9223372036854775807|[0,...]
follower.replication.throttled.replicas|LIST|[]
index.interval.bytes|INT|4096|[0,...]
internal.segment.bytes|INT|null
leader.replication.throttled.replicas|LIST|[]
local.retention.bytes|LONG|-2|[-2,...]
local.retention.ms|LONG|-2|[-2,...]
max.compaction.lag.ms|LONG|9223372036854775807|[1,...]
max.message.bytes|INT|1048588|[0,...]
message.timestamp.after.max.ms|LONG|3600000|[0,...]
message.timestamp.before.max.ms|LONG|9223372036854775807|[0,...]
message.timestamp.type|STRING|CreateTime|[CreateTime, LogAppendTime]
min.cleanable.dirty.ratio|DOUBLE|0.5|[0,...,1]
min.compaction.lag.ms|LONG|0|[0,...]
min.insync.replicas|INT|1|[1,...]
preallocate|BOOLEAN|false
remote.log.copy.disable|BOOLEAN|false
remote.log.delete.on.disable|BOOLEAN|false
remote.storage.enable|BOOLEAN|false
retention.bytes|LONG|-1
retention.ms|LONG|604800000|[-1,...]
segment.bytes|INT|1073741824|[1048576,...]
segment.index.bytes|INT|10485760|[4,...]
segment.jitter.ms|LONG|0|[0,...]
segment.ms|LONG|604800000|[1,...]
unclean.leader.election.enable|BOOLEAN|false
"""
# Printed from AbstractKafkaConfig.CONFIG_DEF, the settings about storage.
BROKER_DEFINITIONS = """
background.threads|INT|10|[1,...]
compression.gzip.level|INT|-1|[1,...,9] or -1
compression.lz4.level|INT|9|[1,...,17]
compression.type|STRING|producer|[uncompressed, zstd, lz4, snappy, gzip, producer]
compression.zstd.level|INT|3|[-131072,...,22]
cordoned.log.dirs|LIST|[]|
log.cleaner.backoff.ms|LONG|15000|[0,...]
log.cleaner.dedupe.buffer.size|LONG|134217728
log.cleaner.delete.retention.ms|LONG|86400000|[0,...]
log.cleaner.enable|BOOLEAN|true
log.cleaner.io.buffer.load.factor|DOUBLE|0.9
log.cleaner.io.buffer.size|INT|524288|[0,...]
log.cleaner.io.max.bytes.per.second|DOUBLE|1.7976931348623157E308
log.cleaner.max.compaction.lag.ms|LONG|9223372036854775807|[1,...]
log.cleaner.min.cleanable.ratio|DOUBLE|0.5|[0,...,1]
log.cleaner.min.compaction.lag.ms|LONG|0|[0,...]
log.cleaner.threads|INT|1|[0,...]
log.cleanup.policy|LIST|[delete]|[compact, delete]
log.flush.interval.messages|LONG|9223372036854775807|[1,...]
log.flush.interval.ms|LONG|null
log.flush.offset.checkpoint.interval.ms|INT|60000|[0,...]
log.flush.scheduler.interval.ms|LONG|9223372036854775807
log.flush.start.offset.checkpoint.interval.ms|INT|60000|[0,...]
log.index.interval.bytes|INT|4096|[0,...]
log.index.size.max.bytes|INT|10485760|[4,...]
log.initial.task.delay.ms|LONG|30000|[0,...]
log.local.retention.bytes|LONG|-2|[-2,...]
log.local.retention.ms|LONG|-2|[-2,...]
log.message.timestamp.after.max.ms|LONG|3600000|[0,...]
log.message.timestamp.before.max.ms|LONG|9223372036854775807|[0,...]
log.message.timestamp.type|STRING|CreateTime|[CreateTime, LogAppendTime]
log.preallocate|BOOLEAN|false
log.retention.bytes|LONG|-1
log.retention.check.interval.ms|LONG|300000|[1,...]
log.retention.hours|INT|168
log.retention.minutes|INT|null
log.retention.ms|LONG|null
log.roll.hours|INT|168|[1,...]
log.roll.jitter.hours|INT|0|[0,...]
log.roll.jitter.ms|LONG|null
log.roll.ms|LONG|null
log.segment.bytes|INT|1073741824|[1048576,...]
log.segment.delete.delay.ms|LONG|60000|[0,...]
message.max.bytes|INT|1048588|[0,...]
min.insync.replicas|INT|1|[1,...]
num.recovery.threads.per.data.dir|INT|2|[1,...]
producer.id.expiration.check.interval.ms|INT|600000|[1,...]
producer.id.expiration.ms|INT|86400000|[1,...]
replica.high.watermark.checkpoint.interval.ms|LONG|5000
transaction.max.timeout.ms|INT|900000|[1,...]
transaction.partition.verification.enable|BOOLEAN|true
unclean.leader.election.enable|BOOLEAN|false
"""
# The broker's settings that a log needs, beside its topic's.
BROKERS_OWN = {
    "producer.id.expiration.ms",
    "transaction.max.timeout.ms",
    "transaction.partition.verification.enable",
}


def definitions(text: str) -> dict[str, tuple[str, str, str]]:
    rows = [line.split("|") for line in text.strip().splitlines()]
    return {name: (kind.lower(), default, rest[0] if rest else "") for name, kind, default, *rest in rows}


def in_kafkas_words(key: ConfigKey) -> str:
    """A range as Kafka's validators print theirs."""
    if key.choices:
        return f"[{', '.join(key.choices)}]"
    if key.low is None:
        return ""
    high = "" if key.high is None else f",{key.high}"
    return f"[{key.low},...{high}]" + "".join(f" or {value}" for value in key.also)


def default_in_kafkas_words(value: object) -> str:
    if isinstance(value, tuple | frozenset):
        return f"[{', '.join(value)}]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return str(value).replace("e+308", "E308")


TOPIC = definitions(TOPIC_DEFINITIONS)


def test_a_log_has_the_settings_of_a_topic_and_three_of_the_broker() -> None:
    assert set(config_keys(LogConfig)) == set(TOPIC) | BROKERS_OWN


@pytest.mark.parametrize("name", TOPIC)
def test_type_default_and_range_are_kafkas(name: str) -> None:
    key = config_keys(LogConfig)[name]
    default = default_in_kafkas_words(getattr(LogConfig(), name.replace(".", "_")))

    assert (key.kind, default, in_kafkas_words(key)) == TOPIC[name]


def test_the_settings_of_a_manager_are_kafkas() -> None:
    kafka = definitions(BROKER_DEFINITIONS)
    ours = {
        name: (
            key.kind,
            default_in_kafkas_words(getattr(ManagerConfig(), name.replace(".", "_"))),
            in_kafkas_words(key),
        )
        for name, key in config_keys(ManagerConfig).items()
        if name not in ("log.dirs", "cordoned.log.dirs", "metadata.log.dir")  # whose defaults are null there
    }

    assert ours == {name: kafka[name] for name in ours}


def test_every_synonym_is_a_setting_of_a_broker() -> None:
    names = {name for key in config_keys(LogConfig).values() for name, _ in key.broker}

    assert names <= set(definitions(BROKER_DEFINITIONS))


def test_the_smaller_lag_is_the_smaller_one() -> None:
    with pytest.raises(ConfigError, match=r"at most max\.compaction\.lag\.ms, which is 5"):
        LogConfig.of({"min.compaction.lag.ms": 6, "max.compaction.lag.ms": 5})


def test_a_topic_overrides_its_broker() -> None:
    broker = LogConfig.of({"segment.ms": 5000, "retention.ms": 1000})
    topic = broker.with_overrides({"retention.ms": "7", "cleanup.policy": "compact"})

    assert (topic.segment_ms, topic.retention_ms, topic.cleanup_policy) == (5000, 7, {"compact"})
    assert broker.retention_ms == 1000


def test_internal_segment_bytes_takes_the_place_of_segment_bytes() -> None:
    assert LogConfig().segment_size == 1 << 30
    assert LogConfig(internal_segment_bytes=1000).segment_size == 1000
    assert (
        LogConfig(internal_segment_bytes=1000).with_overrides({"internal.segment.bytes": None}).segment_size
        == 1 << 30
    )
    assert LogConfig(internal_segment_bytes=1000, preallocate=True).initial_file_size == 1000
    assert LogConfig().initial_file_size == 0


def test_a_compacted_log_rolls_in_time_for_its_compaction_lag() -> None:
    assert LogConfig.of({"segment.ms": 9, "max.compaction.lag.ms": 5}).max_segment_ms == 9
    assert (
        LogConfig.of(
            {"segment.ms": 9, "max.compaction.lag.ms": 5, "cleanup.policy": "compact"}
        ).max_segment_ms
        == 5
    )


# Read in one place, but not in another where a broker uses it.
PARTLY_OBEYED = {"min.insync.replicas", "num.recovery.threads.per.data.dir"}


def settings_that_are_read() -> set[str]:
    """Every attribute that the source reads, as a setting would be called."""
    return {
        node.attr.replace("_", ".")
        for _, tree in source_trees.modules()
        for node in nodes(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


def settings_not_obeyed() -> dict[str, str]:
    """The table of docs/configuration.md: each setting, and what is done instead."""
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text("utf-8")
    section = page.split("## Accepted without effect")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {name: words for names, words in rows for name in re.findall(r"`([^`]+)`", names)}


def test_a_setting_that_is_taken_is_obeyed_or_named_as_one_that_is_not() -> None:
    every = {*config_keys(LogConfig), *config_keys(ManagerConfig)}
    ignored = every - settings_that_are_read()

    assert set(settings_not_obeyed()) == ignored | PARTLY_OBEYED
    assert all(len(words) > 40 for words in settings_not_obeyed().values())


def test_the_reader_of_settings_would_miss_one_that_nobody_reads() -> None:
    assert "segment.bytes" in settings_that_are_read()
    assert "background.threads" not in settings_that_are_read()
