"""Programs of Python that run beside a test, and are told and asked line by line: nothing sleeps."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import TracebackType
from typing import Self

_LIMIT = 120  # seconds, in which even a busy machine gets everything done


class Program:
    """A program in a process of its own, killed at the end of the `with` if it is still there."""

    def __init__(self, text: str, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", text, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    def line(self) -> str:
        """The next line that it prints; what it said last, if it ends before that."""
        assert self._process.stdout is not None
        found = self._process.stdout.readline()
        if not found:
            raise AssertionError(f"it ended: {self.end()}")
        return found.rstrip("\n")

    def tell(self, line: str = "") -> None:
        """Give it a line to read."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait until the process is gone, whoever else has its pipes; the code it ends with."""
        return self._process.wait(timeout=_LIMIT)

    def end(self) -> tuple[int, list[str], str]:
        """Wait for its end; the code it ends with, the lines it printed since, and its last words."""
        out, err = self._process.communicate(timeout=_LIMIT)
        return self._process.returncode, out.splitlines(), err.strip().rpartition("\n")[2]
