"""Kafka's validation of record sets and its producer state, asked from Python."""

from __future__ import annotations

import json
from typing import Any

from stratalog.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
    UsageError,
)
from tests.kafka.jars import KafkaJars
from tests.kafka.java import JavaProgram

NOW = 1_700_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
PRODUCER_ERRORS = {
    "InvalidProducerEpochException": InvalidProducerEpochError,
    "OutOfOrderSequenceException": OutOfOrderSequenceError,
    "InvalidTxnStateException": InvalidTxnStateError,
    "TransactionCoordinatorFencedException": TransactionCoordinatorFencedError,
    "IllegalArgumentException": UsageError,
}


class ValidationOracle:
    """java/ValidationOracle.java on the other end of a pipe; an answer with `error` was an exception."""

    def __init__(self, jars: KafkaJars) -> None:
        self._program = JavaProgram(jars, "ValidationOracle")

    def ask(self, question: str, **wanted: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._program.ask(f"{question} {json.dumps(wanted)}"))
        return answer

    def close(self) -> None:
        self._program.close()
