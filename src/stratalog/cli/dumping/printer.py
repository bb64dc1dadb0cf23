"""Where a dump goes: lines to stdout, complaints to stderr, as text or as one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import BinaryIO, TextIO

Facts = Mapping[str, object]


class Printer:
    """Prints what the dumpers find. `failed` is set by anything that makes Kafka's tool exit with status 1.

    In JSON each line has `path`: the file of the last `begin`.
    """

    def __init__(self, stdout: BinaryIO, stderr: TextIO, *, as_json: bool) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self.as_json = as_json
        self.failed = False
        self._path = ""

    def begin(self, path: str) -> None:
        """Begin a file: the lines that follow belong to it."""
        self._path = path
        if not self.as_json:
            self.line(f"Dumping {path}", {})

    def line(self, text: str, facts: Facts) -> None:
        """One line of data: the text, or the facts in it."""
        if self.as_json:
            facts = {"type": facts["type"], "path": self._path, **facts}
            text = json.dumps(facts, ensure_ascii=False)
        self._stdout.write(text.encode("utf-8", "replace") + b"\n")

    def write(self, data: memoryview | bytes) -> None:
        """Lines of text that are already bytes."""
        self._stdout.write(data)

    def complain(self, text: str, facts: Facts) -> None:
        """Report a problem that does not make Kafka's tool exit with 1."""
        line = json.dumps(facts, ensure_ascii=False) if self.as_json else text
        self._stderr.write(f"{line}\n")

    def fail(self, text: str, facts: Facts) -> None:
        """Report something that stops Kafka's tool. Here the dump goes on, and exits with 1."""
        self.failed = True
        self.complain(text, facts)

    def flush(self) -> None:
        self._stdout.flush()
        self._stderr.flush()
