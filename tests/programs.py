"""Python programs that run next to a test, controlled line by line: nothing sleeps."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import TracebackType
from typing import Self

from tests.waiting import PATIENCE_S


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
        """The next line that it prints; if it ends before, its last output."""
        assert self._process.stdout is not None
        found = self._process.stdout.readline()
        if not found:
            raise AssertionError(f"it ended: {self.end()}")
        return found.rstrip("\n")

    def tell(self, line: str = "") -> None:
        """Send it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait until the process is gone, even if others hold its pipes; returns its exit code."""
        return self._process.wait(timeout=PATIENCE_S)

    def end(self) -> tuple[int, list[str], str]:
        """Wait for its end; returns its exit code, the lines printed since, and its last stderr output."""
        out, err = self._process.communicate(timeout=PATIENCE_S)
        return self._process.returncode, out.splitlines(), err.strip().rpartition("\n")[2]
