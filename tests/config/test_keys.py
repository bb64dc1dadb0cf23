"""How the text of a setting is read, and which values Kafka takes."""

from __future__ import annotations

import math
import pickle

import pytest

from stratalog.config import LogConfig
from stratalog.errors import ConfigError

INT64_MAX = 2**63 - 1
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


def test_configurations_and_their_errors_travel_to_other_processes() -> None:
    config = LogConfig.of({"segment.ms": 5})
    error = pickle.loads(pickle.dumps(ConfigError("a", 1, "no")))

    assert pickle.loads(pickle.dumps(config)) == config
    assert (error.key, error.value, str(error)) == ("a", 1, "a = 1: no.")
