"""Kafka's own UnifiedLog, called from Python: java/LogOracle.java at the other end of a pipe.

A step is a name and arguments, and its answer plain JSON: what Kafka returned, or the kind of its error. The
Java file lists all steps. The log and its clock live in the JVM; one log is open at a time.
"""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.kafka.jars import KafkaJars
from tests.kafka.java import JavaProgram

Json = Any


class Step(NamedTuple):
    """One thing to do to a log: the names and arguments of java/LogOracle.java."""

    name: str
    arguments: dict[str, Json]

    def __str__(self) -> str:
        shown = {key: _short(value) for key, value in self.arguments.items()}
        return f"{self.name} {json.dumps(shown)}"


class Refusal(NamedTuple):
    """Kafka's exception instead of a result: its class, and the records that it names, if any."""

    kind: str
    records: tuple[int, ...] = ()
    message: str = ""

    def __eq__(self, other: object) -> bool:
        """Equal if class and records are; each side has its own text."""
        return isinstance(other, Refusal) and self[:2] == other[:2]

    def __hash__(self) -> int:
        return hash(self[:2])


class LogOracle:
    """One log of Kafka's, and its clock; `close` ends the program."""

    def __init__(self, jars: KafkaJars) -> None:
        self._program = JavaProgram(jars, "LogOracle")

    def do(self, step: Step) -> Json | Refusal:
        """Kafka's answer to a step."""
        answer = json.loads(self._program.ask(f"{step.name} {json.dumps(step.arguments)}"))
        if "error" in answer:
            return Refusal(answer["error"], tuple(answer.get("records", ())), answer["message"])
        return answer["value"]

    def ask(self, name: str, **arguments: Json) -> Json:
        """As `do`, but a refusal is a mistake of the test."""
        answer = self.do(Step(name, arguments))
        assert not isinstance(answer, Refusal), f"{name} {arguments}: {answer}"
        return answer

    def close(self) -> None:
        self._program.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _short(value: Json) -> Json:
    return (
        f"{value[:120]}... ({len(value) // 2} bytes)"
        if isinstance(value, str) and len(value) > 150
        else value
    )
