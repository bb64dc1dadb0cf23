"""What Kafka 4.3.1 itself reads in internal records, from the files beside this one.

vectors.jsonl       records from a broker's logs, with the dump tool's text: each kind and version it had
messages.jsonl.gz   every schema in every version, with the JSON of Kafka's converters
dumped.jsonl.gz     records of every topic, with the dump tool's text; also ones that no healthy broker writes

The last two come from KafkaMessages.java; `test_kafka_makes_the_same_vectors` makes them again.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message by Kafka's own classes."""

    schema: str
    kind: str
    version: int
    variant: str
    raw: bytes
    json: str


@dataclass(frozen=True, kw_only=True)
class Dumped:
    """One record, and what the dump tool printed of its contents."""

    topic: str
    offset: int
    key: bytes | None
    value: bytes | None
    text: str


@cache
def messages() -> list[Message]:
    return [
        Message(raw=bytes.fromhex(line.pop("hex")), **line) for line in _lines(HERE / "messages.jsonl.gz")
    ]


@cache
def dumped() -> list[Dumped]:
    """Records made with Kafka's classes, of all topics; control records under the topic "control"."""
    return [_dumped(line) for line in _lines(HERE / "dumped.jsonl.gz")]


@cache
def from_a_broker() -> list[Dumped]:
    """Records that a broker wrote."""
    return [_dumped(line) for line in _lines(HERE / "vectors.jsonl")]


def _dumped(line: dict[str, Any]) -> Dumped:
    key, value = (None if line[part] is None else bytes.fromhex(line[part]) for part in ("key", "value"))
    return Dumped(topic=line["topic"], offset=line["offset"], key=key, value=value, text=line["text"])


def _lines(path: Path) -> list[dict[str, Any]]:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    # Not splitlines: the odd texts hold U+2028, which is a line's end to that, but not to JSON.
    return [json.loads(line) for line in text.split("\n") if line]
