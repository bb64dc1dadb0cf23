"""Kafka's tools in one JVM for all of them: starting one takes longer than most of what they do."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache

from tests.kafka.jars import KafkaJars
from tests.kafka.java import JavaProgram


def run_in_one_jvm(jars: KafkaJars, command: Sequence[str]) -> tuple[int, bytes, bytes]:
    """The exit status of a tool, its stdout and its stderr; a command is a main class and its arguments.

    The JVM stays in the folder in which the first tool was run, so names of files must be absolute.
    """
    words = [base64.b64encode(word.encode()).decode() for word in command]
    status, out, err = _runner(jars).ask(" ".join(words)).split(" ")
    return int(status), base64.b64decode(out), base64.b64decode(err)


@cache
def _runner(jars: KafkaJars) -> JavaProgram:
    """Ends with this process."""
    return JavaProgram(jars, "ToolRunner")
