"""Python programs that run next to a test, controlled line by line: nothing sleeps."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from types import TracebackType
from typing import Self

from tests.waiting import PATIENCE_S


class Program:
    """A program in a process of its own, killed at the end of the `with` if it is still there."""

    def __init__(self, text: str, *arguments: object) -> None:
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed at the end of the `with`
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", text, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            assert stream is not None
            stream.close()

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
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        # Not `communicate`: it would not return lines that `readline` has already taken from the pipe.
        out = self._process.stdout.read()
        code = self.wait()
        self._stderr.seek(0)
        return code, out.splitlines(), self._stderr.read().strip().rpartition("\n")[2]
