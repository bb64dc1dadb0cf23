"""The options of a write: those of Spark's Kafka sink that make sense without a broker, and a few of ours.

They are parsed once; an error says which option is wrong, and why. Nothing heavy is imported: Spark builds a
writer for each batch of a stream.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from stratalog.errors import UsageError
from stratalog.files.names import check_topic_name
from stratalog.files.storage import local_path
from stratalog.limits import INT32_MAX
from stratalog.log.partition_metadata import topic_id_from_text

# A producer's `batch.size` is 16 KiB by default, and a broker accepts batches up to max.message.bytes. Sizes
# in between are cheapest to read.
DEFAULT_BATCH_SIZE = 1 << 16
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SINK_COLUMNS = ("key", "value", "headers", "topic", "partition", "timestamp")

_KNOWN = (
    "path",
    "paths",
    "topic",
    "partitions",
    "topicId",
    "compression",
    "kafka.compression.type",
    "batchSize",
    "kafka.batch.size",
    "topicSettings",
    "metadataPath",
    "allowReplicated",
    "sync",
)
# What Spark itself puts among the options of a sink.
_OF_SPARK = ("checkpointLocation", "queryName", "outputMode")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The parsed options of a write.

    `partitions` and `topic_ids` are by topic; a number of partitions for all topics is under "".
    `topic_settings` is JSON of settings by topic, which override those of the cluster. `metadata_path` is the
    log directory with `__cluster_metadata-0`, if that is not where the write goes.
    """

    path: str
    topic: str | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    codec: str = "none"
    batch_size: int = DEFAULT_BATCH_SIZE
    topic_settings: str | None = None
    metadata_path: str | None = None
    allow_replicated: bool = False
    sync: bool = True

    @classmethod
    def parse(cls, mapping: Mapping[str, str]) -> WriteOptions:
        """Parse the options; their names are case-insensitive. UsageError says what is wrong with one."""
        given = {name.lower(): value for name, value in mapping.items()}
        known = {name.lower() for name in (*_KNOWN, *_OF_SPARK)}
        for name in given:
            if name not in known:
                raise UsageError(_unknown(name))
        topic = given.get("topic")
        if topic is not None:
            check_topic_name(topic)
        return cls(
            path=_path(given),
            topic=topic,
            partitions=_partitions(given.get("partitions")),
            topic_ids=_topic_ids(given.get("topicid"), topic),
            codec=_codec(given),
            batch_size=_batch_size(given),
            topic_settings=given.get("topicsettings"),
            metadata_path=given.get("metadatapath"),
            allow_replicated=_flag(given, "allowReplicated", default=False),
            sync=_flag(given, "sync", default=True),
        )

    def partitions_of(self, topic: str) -> int | None:
        return self.partitions.get(topic, self.partitions.get(""))


def _unknown(name: str) -> str:
    if name.startswith("kafka."):
        return (
            f"{name} is a setting of a Kafka client, and no client is used here: segments are written to "
            "disk. Leave it out; only kafka.compression.type and kafka.batch.size have a meaning here."
        )
    names = {known.lower(): known for known in _KNOWN}
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {names[near[0]]}?" if near else f"there are {', '.join(_KNOWN)}."
    return f"there is no option {name}: {hint}"


def _path(given: Mapping[str, str]) -> str:
    path, paths = given.get("path"), given.get("paths")
    if paths:
        listed = json.loads(paths)
        if len(listed) != 1 or path:
            raise UsageError("a write goes to one log directory: save to the one that has the partitions.")
        path = str(listed[0])
    if not path:
        raise UsageError(
            "no directory is given: save to a Kafka log directory, as in .save('/var/lib/kafka')."
        )
    return local_path(path)


def _partitions(text: str | None) -> dict[str, int]:
    """A number for all topics, or JSON with one for each."""
    if text is None:
        return {}
    found = (
        {"": int(text)} if text.strip().isdecimal() else _json_of_topics("partitions", text, '{"orders": 6}')
    )
    for number in found.values():
        if not isinstance(number, int) or isinstance(number, bool) or not 0 < number <= INT32_MAX:
            raise UsageError(f"partitions is {text!r}: each topic must have a number of partitions above 0.")
    return {str(topic): int(str(number)) for topic, number in found.items()}


def _topic_ids(text: str | None, topic: str | None) -> dict[str, UUID]:
    """One id, for the one topic that `topic` names, or JSON with one for each."""
    if text is None:
        return {}
    if not text.lstrip().startswith("{"):
        if topic is None:
            raise UsageError(
                'topicId is a single id: give the option topic too, or JSON like {"orders": "k3…"}.'
            )
        return {topic: _topic_id(text)}
    found = _json_of_topics("topicId", text, '{"orders": "k3jUvR3lSY2s4FGnLT5bFA"}')
    return {name: _topic_id(str(value)) for name, value in found.items()}


def _topic_id(text: str) -> UUID:
    try:
        return topic_id_from_text(text)
    except ValueError as error:
        raise UsageError(f"topicId is {text!r}: {error}.") from error


def _json_of_topics(name: str, text: str, example: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise UsageError(f"{name} is {text!r}: it must be JSON like {example}.")
    for topic in found:
        check_topic_name(topic)
    return found


def _codec(given: Mapping[str, str]) -> str:
    ours, alias = given.get("compression"), given.get("kafka.compression.type")
    if ours is not None and alias is not None and ours != alias:
        raise UsageError("compression and kafka.compression.type contradict each other: give one of them.")
    name = (ours or alias or "none").strip().lower()
    if name not in CODECS:
        raise UsageError(f"compression is {name!r}: it must be one of {', '.join(CODECS)}.")
    return name


def _batch_size(given: Mapping[str, str]) -> int:
    text = given.get("batchsize", given.get("kafka.batch.size"))
    if text is None:
        return DEFAULT_BATCH_SIZE
    if not text.strip().isdecimal() or not 0 < int(text) <= INT32_MAX:
        raise UsageError(f"batchSize is {text!r}: it must be a number of bytes above 0.")
    return int(text)


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name.lower())
    if text is None:
        return default
    values = {"true": True, "false": False}
    if text.strip().lower() not in values:
        raise UsageError(f"{name} is {text!r}: it must be true or false.")
    return values[text.strip().lower()]
