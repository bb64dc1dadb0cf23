"""Settings, against what Kafka 4.3.1 prints of its own definitions and says to the same values."""

from __future__ import annotations

import ast
import math
import pickle
import re
from pathlib import Path

import pytest

import stratalog
from stratalog.config import LogConfig, ManagerConfig, parse_properties, read_server_properties
from stratalog.config.keys import ConfigKey, config_keys
from stratalog.errors import ConfigError

INT64_MAX = 2**63 - 1

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


# What LogConfig.validate of 4.3.1 said to each, and the value that LogConfig then had.
ACCEPTED = [
    ("segment.bytes", "1048576", 1048576),
    ("segment.bytes", " 1048576 ", 1048576),
    ("segment.bytes", "+1048576", 1048576),
    ("cleanup.policy", "compact,delete", {"compact", "delete"}),
    ("cleanup.policy", "delete , compact", {"compact", "delete"}),
    ("cleanup.policy", "", set()),
    ("cleanup.policy", "delete,delete", {"delete"}),
    ("min.cleanable.dirty.ratio", "1", 1.0),
    ("min.cleanable.dirty.ratio", ".5", 0.5),
    ("preallocate", "TRUE", True),
    ("preallocate", " false", False),
    ("compression.type", "gzip", "gzip"),
    ("compression.gzip.level", "-1", -1),
    ("compression.gzip.level", "9", 9),
    ("retention.ms", "-1", -1),
    ("retention.ms", "0", 0),
    ("retention.ms", "9223372036854775807", INT64_MAX),
    ("retention.bytes", "-77", -77),
    ("internal.segment.bytes", "1", 1),
    ("internal.segment.bytes", "-1", -1),
    ("local.retention.ms", "-2", -2),
    ("min.compaction.lag.ms", "5", 5),
    ("index.interval.bytes", "0", 0),
    ("compression.zstd.level", "-131072", -131072),
]
REFUSED = [
    ("segment.bytes", "1048575"),
    ("segment.bytes", "2147483648"),
    ("segment.bytes", "1e9"),
    ("segment.bytes", "1_048_576"),
    ("segment.bytes", "0x100000"),
    ("segment.bytes", ""),
    ("cleanup.policy", "Delete"),
    ("cleanup.policy", "compact,none"),
    ("cleanup.policy", "delete,"),
    ("min.cleanable.dirty.ratio", "1.01"),
    ("min.cleanable.dirty.ratio", "-0.1"),
    ("min.cleanable.dirty.ratio", "half"),
    ("preallocate", "yes"),
    ("compression.type", "GZIP"),
    ("compression.type", "none"),
    ("compression.gzip.level", "0"),
    ("compression.gzip.level", "10"),
    ("retention.ms", "-2"),
    ("retention.ms", "9223372036854775808"),
    ("message.timestamp.type", "createtime"),
    ("message.format.version", "2.8"),
    ("nonsense", "1"),
    ("local.retention.ms", "-3"),
    ("segment.ms", "0"),
    ("max.compaction.lag.ms", "0"),
    ("segment.index.bytes", "3"),
    ("compression.zstd.level", "23"),
    ("max.message.bytes", "-1"),
]


@pytest.mark.parametrize(("name", "text", "value"), ACCEPTED)
def test_what_kafka_takes_is_taken(name: str, text: str, value: object) -> None:
    assert getattr(LogConfig.of({name: text}), name.replace(".", "_")) == value


@pytest.mark.parametrize(("name", "text"), REFUSED)
def test_what_kafka_refuses_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        LogConfig.of({name: text})

    assert (caught.value.key, caught.value.value) == (name, text)
    assert str(caught.value).startswith(f"{name} = {text}: ")


def test_no_ratio_is_nan_although_kafka_takes_that() -> None:
    with pytest.raises(ConfigError):
        LogConfig.of({"min.cleanable.dirty.ratio": math.nan})


def test_a_refusal_names_the_range() -> None:
    with pytest.raises(ConfigError, match=r"of at least 1048576\."):
        LogConfig.of({"segment.bytes": 14})
    with pytest.raises(ConfigError, match=r"from 1 to 9, or -1\."):
        LogConfig.of({"compression.gzip.level": 0})
    with pytest.raises(ConfigError, match="one of CreateTime, LogAppendTime"):
        LogConfig.of({"message.timestamp.type": "now"})


def test_the_constructor_checks_too() -> None:
    with pytest.raises(ConfigError, match=r"segment\.bytes = 1000"):
        LogConfig(segment_bytes=1000)
    with pytest.raises(ConfigError):
        LogConfig(preallocate=1)
    with pytest.raises(ConfigError):
        LogConfig(segment_ms=True)


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


def test_configurations_and_their_errors_travel_to_other_processes() -> None:
    config = LogConfig.of({"segment.ms": 5})
    error = pickle.loads(pickle.dumps(ConfigError("a", 1, "no")))

    assert pickle.loads(pickle.dumps(config)) == config
    assert (error.key, error.value, str(error)) == ("a", 1, "a = 1: no.")


# What java.util.Properties read in each.
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=b", {"a": "b"}),
        ("a = b", {"a": "b"}),
        ("a: b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("  a\t=\tb  ", {"a": "b  "}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("#c\n!d\na=1", {"a": "1"}),
        ("a=1\\\n   2", {"a": "12"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a\\ b c", {"a b": "c"}),
        ("k=\\u0041\\t\\x", {"k": "A\tx"}),
        ("a=1\na=2", {"a": "2"}),
        ("a==b", {"a": "=b"}),
        ("a=b\\", {"a": "b"}),
        ("a=\\\n#x", {"a": "#x"}),
        ("\n\n a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a : = b", {"a": "= b"}),
        ("a\\:b:c", {"a:b": "c"}),
        ("x=\\\\\\\n y", {"x": "\\y"}),
    ],
)
def test_properties_are_read_as_by_java(text: str, found: dict[str, str]) -> None:
    assert parse_properties(text) == found


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


# Read in one place, and not in another where a broker goes by it.
PARTLY_OBEYED = {"num.recovery.threads.per.data.dir"}


def settings_that_are_read() -> set[str]:
    """Every attribute that the source reads, as a setting would be called."""
    source = Path(stratalog.__file__).parent
    return {
        node.attr.replace("_", ".")
        for file in source.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


def settings_not_obeyed() -> dict[str, str]:
    """The table of docs/configuration.md: each setting, and what is done instead."""
    page = (Path(__file__).parent.parent / "docs" / "configuration.md").read_text("utf-8")
    section = page.split("## Taken, and not obeyed")[1].split("\n## ")[0]
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
