"""The options of a read: those of Spark's own Kafka source, under the same names, and a few of ours.

They are parsed once; an error says which option is wrong, and why. No file is read here and nothing heavy is
imported, because Spark asks for the schema before it plans anything.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from stratalog.errors import UsageError
from stratalog.files.names import TopicPartition
from stratalog.jobs.decoding.asked import DECODING_OPTIONS, AskedDecoding, Encoding, decoded_columns
from stratalog.limits import INT32_MAX, INT64_MAX, INT64_MIN
from stratalog.records.internal_topics import CLUSTER_METADATA, CONSUMER_OFFSETS, TRANSACTION_STATE

KAFKA_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS_COLUMN = "headers"
BATCH_COLUMNS = (
    "leaderEpoch",
    "producerId",
    "producerEpoch",
    "sequence",
    "isTransactional",
    "isControl",
    "codec",
    "position",
)
# The internal topics that can be read decoded, by their names in the option `decode`.
TABLE_TOPICS = {
    "consumer_offsets": CONSUMER_OFFSETS,
    "transaction_state": TRANSACTION_STATE,
    "cluster_metadata": CLUSTER_METADATA,
}
MAX_TRIGGER_DELAY_MS = 15 * 60 * 1000
EARLIEST, LATEST = -2, -1  # instead of an offset, as in Kafka's source

_T = TypeVar("_T")
_SELECTIONS = ("assign", "subscribe", "subscribePattern")
_KNOWN = (
    "path",
    "paths",
    *_SELECTIONS,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "failOnDataLoss",
    "includeBatchMetadata",
    "includeControl",
    "isolation",
    "kafka.isolation.level",
    "onCorruption",
    "decode",
    *DECODING_OPTIONS,
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
)
# Options of Kafka's source that are about the connection to a broker.
_OF_A_CONSUMER = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)


class OnCorruption(Enum):
    """What to do about a batch that cannot be read."""

    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBound:
    """Where a read begins or ends; the first of these fields that is set is used.

    `timestamps` and `offsets` are by partition; in them, -2 and -1 mean the earliest and the latest offset.
    """

    timestamp: int | None = None
    timestamps: Mapping[TopicPartition, int] | None = None
    offsets: Mapping[TopicPartition, int] | None = None
    mark: int = EARLIEST
    option: str = ""  # its option's name, for messages


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The parsed options of a read."""

    paths: tuple[str, ...]
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] | None = None
    starting: ReadBound = field(default_factory=ReadBound)
    ending: ReadBound = field(default_factory=lambda: ReadBound(mark=LATEST))
    start_late_if_no_match: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    include_batch_metadata: bool = False
    include_control: bool = False
    read_committed: bool = False
    on_corruption: OnCorruption = OnCorruption.FAIL
    fail_on_data_loss: bool = True
    table: str | None = None  # a name in TABLE_TOPICS; its records are to be decoded
    key: AskedDecoding = field(default_factory=AskedDecoding)
    value: AskedDecoding = field(default_factory=AskedDecoding)
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = MAX_TRIGGER_DELAY_MS

    @classmethod
    def parse(cls, mapping: Mapping[str, str], *, streaming: bool | None = False) -> ReadOptions:
        """Parse the options; their names are case-insensitive. UsageError says what is wrong with one.

        By default a batch begins at the earliest offset, and a stream at the latest. If it is not
        known which of the two it will be (None), only options that are wrong for both are refused.
        """
        given = _Given(mapping)
        if streaming:
            _check_stream(given)
        chosen = [name for name in _SELECTIONS if given.get(name)]
        if len(chosen) > 1:
            raise UsageError(f"{' and '.join(chosen)} contradict each other: give one of them, or none.")
        default_start = LATEST if streaming else EARLIEST
        starting = _bound(given, "starting", default_start, forbidden=LATEST if streaming is False else None)
        ending = _bound(given, "ending", LATEST, forbidden=EARLIEST)
        _check_order(starting, ending)
        table = given.choice("decode", {name: name for name in TABLE_TOPICS}, default=None)
        delay_ms = given.parsed("maxTriggerDelay", _duration_ms)
        options = cls(
            paths=_paths(given),
            table=table,
            # A table already names its topic; `assign` may choose some of its partitions.
            topics=given.parsed("subscribe", _topics)
            or ((TABLE_TOPICS[table],) if table and not chosen else None),
            pattern=given.parsed("subscribePattern", _pattern),
            assigned=given.parsed("assign", _assigned),
            starting=starting,
            ending=ending,
            start_late_if_no_match=given.choice(
                "startingOffsetsByTimestampStrategy", {"error": False, "latest": True}, default=False
            ),
            min_partitions=given.parsed("minPartitions", _positive),
            max_records_per_partition=given.parsed("maxRecordsPerPartition", _positive),
            include_headers=given.flag("includeHeaders"),
            include_batch_metadata=given.flag("includeBatchMetadata"),
            include_control=given.flag("includeControl"),
            read_committed=_read_committed(given),
            on_corruption=given.choice(
                "onCorruption", {each.value: each for each in OnCorruption}, default=OnCorruption.FAIL
            ),
            fail_on_data_loss=given.flag("failOnDataLoss", default=True),
            key=AskedDecoding.of("key", given.get),
            value=AskedDecoding.of("value", given.get),
            max_offsets_per_trigger=given.parsed("maxOffsetsPerTrigger", _positive),
            min_offsets_per_trigger=given.parsed("minOffsetsPerTrigger", _positive),
            max_trigger_delay_ms=MAX_TRIGGER_DELAY_MS if delay_ms is None else delay_ms,
        )
        _check_table(options, streaming=streaming)
        return options

    @property
    def may_omit(self) -> bool:
        """Whether a read may leave something out instead of failing."""
        return self.on_corruption is OnCorruption.SKIP or not self.fail_on_data_loss

    @property
    def is_decoded(self) -> bool:
        """Whether keys or values are to be anything but bytes."""
        return any(each.encoding is not Encoding.BINARY for each in (self.key, self.value))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a read that is given no schema, in the order of Kafka's source."""
        asked = {"key": self.key, "value": self.value}
        parts = [
            decoded_columns(name, asked[name].encoding) if name in asked else (name,)
            for name in self.record_columns
        ]
        return tuple(name for part in parts for name in part)

    @property
    def record_columns(self) -> tuple[str, ...]:
        """The same, with keys and values as bytes."""
        headers = (HEADERS_COLUMN,) if self.include_headers else ()
        return KAFKA_COLUMNS + headers + (BATCH_COLUMNS if self.include_batch_metadata else ())


class _Given:
    """The options as they were given, by lower-case names, because Spark may change their case."""

    def __init__(self, mapping: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in mapping.items()}
        known = {name.lower() for name in _KNOWN}
        for name in self._values:
            if name not in known:
                raise UsageError(_unknown(name))

    def get(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def parsed(self, name: str, parse: Callable[[str, str], _T]) -> _T | None:
        """The option's value as `parse` returns it; None if the option is not given."""
        text = self.get(name)
        return None if text is None else parse(name, text)

    def choice(self, name: str, values: Mapping[str, _T], *, default: _T) -> _T:
        text = self.get(name)
        if text is None:
            return default
        try:
            return values[text.strip().lower()]
        except KeyError:
            raise UsageError(f"{name} is {text!r}: use one of {', '.join(values)}.") from None

    def flag(self, name: str, *, default: bool = False) -> bool:
        return self.choice(name, {"true": True, "false": False}, default=default)


def _unknown(name: str) -> str:
    if name.startswith("kafka."):
        return (
            f"{name} is a setting of a Kafka client, and no client is used here: the log directory is read "
            "from disk. Leave it out; only kafka.isolation.level has a meaning here."
        )
    if name in {other.lower() for other in _OF_A_CONSUMER}:
        return f"{name} is a setting for a consumer of a broker, and no broker is used here: leave it out."
    names = {known.lower(): known for known in _KNOWN}
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {names[near[0]]}?" if near else f"there are {', '.join(_KNOWN)}."
    return f"there is no option {name}: {hint}"


def _check_stream(given: _Given) -> None:
    """UsageError for options that only a batch can have, or that no trigger can satisfy."""
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        if given.get(name) is not None:
            raise UsageError(
                f"{name} is for a batch: a stream does not end. Leave it out, or use spark.read."
            )
    least, most = (given.parsed(f"{each}OffsetsPerTrigger", _positive) for each in ("min", "max"))
    if least is not None and most is not None and least > most:
        raise UsageError(f"minOffsetsPerTrigger is {least}, more than maxOffsetsPerTrigger, which is {most}.")


def _paths(given: _Given) -> tuple[str, ...]:
    path, paths = given.get("path"), given.get("paths")
    found = [path] if path else []
    if paths:
        listed = _json("paths", paths)
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            raise UsageError(f"paths is {paths!r}: it must be a JSON list of directories.")
        found += listed
    if not found:
        raise UsageError("no directory is given: load a Kafka log directory, as in .load('/var/lib/kafka').")
    return tuple(found)


def _topics(name: str, text: str) -> tuple[str, ...]:
    topics = tuple(topic.strip() for topic in text.split(",") if topic.strip())
    if not topics:
        raise UsageError(f"{name} is {text!r}: it must be a list of topics with commas between them.")
    return topics


def _check_table(options: ReadOptions, *, streaming: bool | None) -> None:
    """UsageError for what a table cannot have: a stream, decoded keys or values, other topics."""
    if options.table is None:
        return
    if streaming:
        raise UsageError("decode works only for a batch read; a stream has keys and values undecoded.")
    if options.is_decoded:
        raise UsageError(
            f"decode={options.table} has its own columns: leave keyEncoding and valueEncoding out."
        )
    topic = TABLE_TOPICS[options.table]
    named = {partition.topic for partition in options.assigned or ()} or set(options.topics or ())
    if options.pattern is not None or named != {topic}:
        raise UsageError(f"decode={options.table} reads only {topic}: leave other topics out.")


def _pattern(name: str, text: str) -> str:
    text = text.strip()
    if not text:
        raise UsageError(f"{name} is empty: it must be a regular expression for the names of topics.")
    try:
        re.compile(text)
    except re.error as error:
        raise UsageError(f"{name} is {text!r}, which is not a regular expression: {error}.") from None
    return text


def _assigned(name: str, text: str) -> tuple[TopicPartition, ...]:
    parsed = _json(name, text)
    wanted = f'{name} is {text!r}: it must be JSON like {{"orders": [0, 1]}}.'
    if not isinstance(parsed, dict) or not parsed:
        raise UsageError(wanted)
    partitions = []
    for topic, numbers in parsed.items():
        if not isinstance(numbers, list) or not all(_is_partition(number) for number in numbers):
            raise UsageError(wanted)
        partitions += [TopicPartition(topic, number) for number in numbers]
    return tuple(partitions)


def _bound(given: _Given, side: str, default: int, *, forbidden: int | None) -> ReadBound:
    """As in Kafka's source, one time for all overrides times by partition, and both override offsets."""
    name = f"{side}Timestamp"
    if given.get(name) is not None:
        return ReadBound(timestamp=given.parsed(name, _timestamp), option=name)
    name = f"{side}OffsetsByTimestamp"
    if given.get(name) is not None:
        return ReadBound(timestamps=given.parsed(name, _times), option=name)
    name = f"{side}Offsets"
    text = given.get(name)
    if text is None:
        return ReadBound(mark=default, option=name)
    marks = {"earliest": EARLIEST, "latest": LATEST}
    mark = marks.get(text.strip().lower())
    if mark is not None:
        if mark == forbidden:
            raise UsageError(f"{name} of a batch cannot be {text.strip().lower()}: nothing would be read.")
        return ReadBound(mark=mark, option=name)
    offsets = by_partition(name, text)
    for partition, offset in offsets.items():
        if offset < EARLIEST or offset == forbidden:
            raise UsageError(
                f"{name} says {offset} for {partition}: that is not a valid offset. An offset is 0 or more; "
                f"{EARLIEST} means the earliest (to start at), {LATEST} the latest (to end at)."
            )
    return ReadBound(offsets=offsets, option=name)


def _check_order(starting: ReadBound, ending: ReadBound) -> None:
    """UsageError for an end that is known to be before its start; Kafka's source refuses it too."""
    times = [(starting.timestamp, ending.timestamp, "")]
    both = [(starting.timestamps, ending.timestamps), (starting.offsets, ending.offsets)]
    for starts, ends in both:
        for partition, end in (ends or {}).items():
            times.append(((starts or {}).get(partition), end, f" for {partition}"))
    for start, stop, where in times:
        if start is not None and stop is not None and start > stop >= 0:
            raise UsageError(
                f"{starting.option} says {start}{where}, {ending.option} says {stop}: the read would end "
                "before it begins."
            )


def _times(name: str, text: str) -> dict[TopicPartition, int]:
    times = by_partition(name, text)
    for partition, time in times.items():
        if time < EARLIEST:
            raise UsageError(
                f"{name} says {time} for {partition}: that is not a time. A time is a number of milliseconds "
                f"since 1970, {EARLIEST} for the earliest or {LATEST} for the latest offset."
            )
    return times


def by_partition(name: str, text: str) -> dict[TopicPartition, int]:
    """JSON like {"orders": {"0": 23, "1": -2}}, as Kafka's source writes its offsets too."""
    parsed = _json(name, text)
    wanted = f'{name} is {text!r}: it must be JSON like {{"orders": {{"0": 23, "1": 42}}}}.'
    if not isinstance(parsed, dict):
        raise UsageError(wanted)
    found = {}
    for topic, numbers in parsed.items():
        if not isinstance(numbers, dict):
            raise UsageError(wanted)
        for partition, number in numbers.items():
            if not partition.isdecimal() or not _is_partition(int(partition)) or not _is_long(number):
                raise UsageError(wanted)
            found[TopicPartition(topic, int(partition))] = number
    return found


def _read_committed(given: _Given) -> bool:
    levels = {"read_uncommitted": False, "read_committed": True}
    ours, alias = (
        given.choice(name, levels, default=None) for name in ("isolation", "kafka.isolation.level")
    )
    if ours is not None and alias is not None and ours != alias:
        raise UsageError("isolation and kafka.isolation.level contradict each other: give one of them.")
    return bool(ours if ours is not None else alias)


def _timestamp(name: str, text: str) -> int:
    if not text.strip().isdecimal() or int(text) > INT64_MAX:
        raise UsageError(f"{name} is {text!r}: it must be a number of milliseconds since 1970.")
    return int(text)


def _positive(name: str, text: str) -> int:
    if not text.strip().isdecimal() or not 0 < int(text) <= INT64_MAX:
        raise UsageError(f"{name} is {text!r}: it must be a number above 0.")
    return int(text)


_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _duration_ms(name: str, text: str) -> int:
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    unit = _UNITS_MS.get(match[2] or "ms") if match else None
    if match is None or unit is None:
        raise UsageError(f"{name} is {text!r}: it must be a time like 90s, 15m or 1h.")
    return int(match[1]) * unit


def _json(name: str, text: str) -> Any:  # Any: the caller checks it
    try:
        return json.loads(text)
    except ValueError as error:  # not JSON, or a number with thousands of digits
        raise UsageError(f"{name} is {text!r}, which is not JSON: {error}.") from None


def _is_partition(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= INT32_MAX


def _is_long(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and INT64_MIN <= number <= INT64_MAX


def listed(names: Iterable[object], most: int = 12) -> str:
    """Names for a message, shortened if there are many."""
    found = [str(name) for name in names]
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
