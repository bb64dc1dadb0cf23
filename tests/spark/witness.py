"""What Kafka's own consumer gets for the options of a read: a second witness, without Spark.

Topics, earliest and latest offsets, and offsets of times also come from the broker.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tests.kafka.jars import KafkaJars
from tests.kafka.java import JavaProgram

Json = dict[str, Any]

# SQL over the frame of a source that gives rows like those of `Witness.consumed`.
COLUMNS = ("topic", "partition", "offset", "key", "value", "unix_millis(timestamp)", "timestampType")
EARLIEST, LATEST = -2, -1


class Witness:
    """Consumers of one broker, in a separate JVM; `close` ends it."""

    def __init__(self, jars: KafkaJars, bootstrap: str) -> None:
        self._program = JavaProgram(jars, "ConsumerOracle")
        self._bootstrap = bootstrap
        self.close = self._program.close

    def consumed(self, options: Mapping[str, str]) -> list[tuple[Any, ...]]:
        """The records that the options select, in order, with headers if requested."""
        reading = _Reading(self, options)
        return [row for topic, partition in reading.partitions() for row in reading.rows(topic, partition)]

    def ask(self, question: str, isolation: str, **given: object) -> Json:
        wanted = {"ask": question, "bootstrap": self._bootstrap, "isolation": isolation, **given}
        answer: Json = json.loads(self._program.ask(json.dumps(wanted)))
        assert "error" not in answer, answer
        return answer


class _Reading:
    """One read, by the options of Spark's source."""

    def __init__(self, witness: Witness, options: Mapping[str, str]) -> None:
        self._witness, self._options = witness, options
        self._isolation = options.get("kafka.isolation.level", "read_uncommitted")

    def partitions(self) -> list[tuple[str, int]]:
        options = self._options
        if "assign" in options:
            assigned = json.loads(options["assign"])
            return sorted((topic, number) for topic, numbers in assigned.items() for number in numbers)
        topics = self._witness.ask("topics", self._isolation)["topics"]
        if "subscribe" in options:
            names = [name.strip() for name in options["subscribe"].split(",")]
        else:
            names = [name for name in topics if re.fullmatch(options["subscribePattern"], name)]
        return sorted((name, number) for name in names for number in topics[name])

    def rows(self, topic: str, partition: int) -> list[tuple[Any, ...]]:
        start = self._bound(topic, partition, "starting", EARLIEST)
        end = self._bound(topic, partition, "ending", LATEST)
        found = self._ask("read", topic, partition, start=start, end=end)["records"]
        has_headers = self._options.get("includeHeaders") == "true"
        return [
            (topic, partition, offset, _bytes(key), _bytes(value), time_ms, kind)
            + (([(name, _bytes(text)) for name, text in headers] or None,) if has_headers else ())
            for offset, key, value, time_ms, kind, headers in found
        ]

    def _bound(self, topic: str, partition: int, side: str, mark: int) -> int:
        """The offset at which a read begins or ends, as the broker answers."""
        bounds = self._ask("bounds", topic, partition)
        timestamp = self._options.get(f"{side}Timestamp")
        times = self._options.get(f"{side}OffsetsByTimestamp")
        if times is not None:
            timestamp = json.loads(times)[topic][str(partition)]
        if timestamp is not None and int(timestamp) >= 0:
            offset = self._ask("time", topic, partition, time=int(timestamp))["offset"]
            return int(offset if offset >= 0 else bounds["latest"])
        offsets = self._options.get(f"{side}Offsets")
        chosen: Any = timestamp
        if timestamp is None:
            chosen = mark if offsets is None else json.loads(offsets)[topic][str(partition)]
        return int({EARLIEST: bounds["earliest"], LATEST: bounds["latest"]}.get(chosen, chosen))

    def _ask(self, question: str, topic: str, partition: int, **given: int) -> Json:
        return self._witness.ask(question, self._isolation, topic=topic, partition=partition, **given)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)
