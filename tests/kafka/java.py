"""Small Java programs of ours that run on Kafka's own classes: hundreds of questions to one JVM.

A program reads one question per line and writes one answer per line. It is compiled once for each text and
Kafka release, into the cache beside the jars.
"""

from __future__ import annotations

import atexit
import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kafka.jars import KafkaJars, cache_folder, find_java
from tests.kafka.tools import FAST_START, KafkaError, java_command, log_flags, shared_classes
from tests.waiting import PATIENCE_S

SOURCES = Path(__file__).with_name("java")


class JavaProgram:
    """A running Java program that answers lines with lines; `close`, or the end of a `with`, ends it.

    `options` are those of the JVM; by default they make it start quickly.
    """

    def __init__(self, jars: KafkaJars, name: str, options: Sequence[str] = FAST_START) -> None:
        flags = [*shared_classes(jars, options), *log_flags(jars, jars.folder, level="WARN", target="err")]
        command = [*java_command(jars, options, flags, compiled(jars, name)), name]
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as the process)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            encoding="utf-8",
            bufsize=1,
        )
        atexit.register(self.close)

    def ask(self, question: str) -> str:
        """The answer to one question; KafkaError with the program's last output if it died."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert "\n" not in question
        try:
            self._process.stdin.write(question + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer.endswith("\n"):
            raise KafkaError(f"the Java program died at {question[:200]!r}:\n{self._last_words()}")
        return answer[:-1]

    def close(self) -> None:
        """End the program; a second call has no effect."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._complaints):
            if stream is not None:
                stream.close()
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _last_words(self) -> str:
        self._process.wait(PATIENCE_S)
        self._complaints.seek(0)
        return self._complaints.read().decode(errors="replace")[-2000:]


def compiled(jars: KafkaJars, name: str) -> Path:
    """The folder with the classes of java/<name>.java for this release, from the cache or compiled."""
    source = SOURCES / f"{name}.java"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    folder = cache_folder() / "java" / f"{name}-{jars.release}-{digest}"
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        _compile(jars, source, folder)
    return folder


def _compile(jars: KafkaJars, source: Path, folder: Path) -> None:
    javac = find_java("javac")
    with tempfile.TemporaryDirectory(dir=folder.parent) as partial:
        classes = Path(partial) / "classes"
        command = [str(javac), "-encoding", "UTF-8", "-cp", jars.class_path, "-d", str(classes), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise KafkaError(f"javac does not take {source.name}:\n{done.stderr}")
        try:
            classes.rename(folder)
        except OSError:
            if not folder.exists():  # otherwise another process was faster, with the same result
                raise
