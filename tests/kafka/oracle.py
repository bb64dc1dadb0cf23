"""Kafka's own record classes, called from Python: java/RecordsOracle.java at the other end of a pipe.

Batches and records are passed as JSON with Kafka's names (`baseOffset`, `isTransactional`, `codec` as in
"gzip" or "gzip:9"); keys and values of records are hex, or None. The Java file lists every field.
"""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any, Self

from tests.kafka.jars import KafkaJars
from tests.kafka.java import JavaProgram

Json = dict[str, Any]


class OracleError(Exception):
    """Kafka threw instead of answering; `.kafka_class` is its exception's class."""

    def __init__(self, kafka_class: str, message: str) -> None:
        super().__init__(f"{kafka_class}: {message}")
        self.kafka_class = kafka_class


class RecordsOracle:
    """What Kafka reads in given bytes, and what bytes Kafka writes; `close` ends it."""

    def __init__(self, jars: KafkaJars) -> None:
        self._program = JavaProgram(jars, "RecordsOracle")

    def decode(self, data: bytes) -> list[Json]:
        """All batches of a buffer, each with its `records`; OracleError if Kafka cannot read one of them."""
        batches = self.decode_each(data)
        for batch in batches:
            _raise_error_in(batch)
        return batches

    def decode_each(self, data: bytes) -> list[Json]:
        """As decode, but a batch whose records Kafka cannot read has `error` and `message` in their place.

        A wrong CRC is not an error: see `valid`. A torn last batch is left out.
        """
        answer = self._ask(f"decode {data.hex()}")
        batches: list[Json] = answer["batches"]
        return batches

    def build(self, records: list[Json], **batch: Any) -> bytes:
        """A batch (magic 2), or a message set (magic 0 or 1), as Kafka's builder writes it.

        Records have `timestamp`, `key`, `value`, `headers` ([[key, hex or None], ...]) and, to leave gaps,
        `offset`. With isControl=True they have `controlType` and `coordinatorEpoch`, or `value`.
        """
        return self._bytes("build", batch | {"records": records})

    def compress(self, codec: str, data: bytes, magic: int = 2) -> bytes:
        """The stream that Kafka's codec writes when given the data in one piece."""
        return _hex_of(self._ask(f"compress {codec} {magic} {data.hex()}"))

    def decompress(self, codec: str, data: bytes, magic: int = 2) -> bytes:
        return _hex_of(self._ask(f"decompress {codec} {magic} {data.hex()}"))

    def set_fields(self, batch: bytes, **fields: Any) -> bytes:
        """The batch after setLastOffset, setMaxTimestamp (with `timestampType`), setPartitionLeaderEpoch."""
        return self._bytes("set", fields | {"hex": batch.hex()})

    def empty_batch(self, **fields: Any) -> bytes:
        """The header of a batch whose records compaction has removed."""
        return self._bytes("emptyBatch", fields)

    def close(self) -> None:
        self._program.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _bytes(self, question: str, wanted: Json) -> bytes:
        return _hex_of(self._ask(f"{question} {json.dumps(wanted)}"))

    def _ask(self, question: str) -> Json:
        answer: Json = json.loads(self._program.ask(question))
        _raise_error_in(answer)
        return answer


def _hex_of(answer: Json) -> bytes:
    return bytes.fromhex(answer["hex"])


def _raise_error_in(answer: Json) -> None:
    if "error" in answer:
        raise OracleError(answer["error"], answer["message"])
