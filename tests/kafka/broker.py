"""A real Kafka broker of one node on loopback ports, to be started, stopped, killed and started again.

    with Broker(resolve(), work, properties={"log.index.interval.bytes": "512"}) as broker:
        create_topic(broker.bootstrap, "t")
        broker.kill()       # SIGKILL: the directories are as a crash leaves them
        broker.start()      # recovers; broker.log_lines("LogLoader") shows how
        broker.stop()       # SIGTERM: controlled shutdown, clean-shutdown file

Releases from 3.3 on run in KRaft mode, broker and controller in one process; older ones get their own
ZooKeeper (zookeeper.py).
"""

from __future__ import annotations

import atexit
import base64
import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kafka.jars import KafkaJars
from tests.kafka.ports import free_ports
from tests.kafka.tools import (
    FAST_START,
    NO_WORD_OF_ARCHIVES,
    KafkaError,
    class_archive,
    java_command,
    log_flags,
    properties_text,
    run_tool,
    shared_classes,
)
from tests.kafka.zookeeper import ZooKeeper
from tests.waiting import PATIENCE_S, until

# After a SIGKILL the controller, or ZooKeeper, refuses the same broker id until its former session has run
# out: 9 s (18 s) by default, a long wait in a test. With less than 4 s a loaded machine loses live sessions.
_SESSION_MS = 4000

_STARTED = r"\] started \(kafka\.server|Kafka Server started"

# The files that Kafka's tool writes into new directories, by release and number of directories.
_formatted: dict[tuple[str, int], list[dict[str, bytes]]] = {}


class Broker:
    """One broker over given log directories; `close`, or the end of a `with`, kills it if it still runs."""

    def __init__(
        self,
        jars: KafkaJars,
        work: Path,
        *,
        log_dirs: Sequence[Path] = (),
        properties: Mapping[str, str] | None = None,
        jvm: Sequence[str] = FAST_START,
        run_with: Sequence[str] = (),
        is_dynamic: bool = False,
    ) -> None:
        """`run_with` is put before the command line, for example to run it as another user.

        `is_dynamic`: the voters are in the metadata log, and not in the settings.
        """
        work.mkdir(parents=True, exist_ok=True)
        self.jars = jars
        self.log_dirs = list(log_dirs) or [work / "logs"]
        self.start_s = 0.0  # how long the latest start took
        self._work = work
        self._output = work / "broker.log"
        self._own_properties = dict(properties or {})
        self._jvm = tuple(jvm)
        self._run_with = tuple(run_with)
        self._is_dynamic = is_dynamic
        self._port, self._controller_port = free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None
        self._zookeeper: ZooKeeper | None = None
        self._run_position = 0  # where the lines of the latest start begin in the output file
        self._new_archive: Path | None = None
        atexit.register(self.close)  # no broker outlives the test run, however that ends

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def log_dir(self) -> Path:
        """The only log directory, or the first."""
        return self.log_dirs[0]

    def write_config(self) -> Path:
        """Write the server.properties that it starts with."""
        config = self._work / "server.properties"
        config.write_text(properties_text(self._properties()))
        return config

    def start(self, timeout_s: float = PATIENCE_S) -> None:
        """Format the log directories if they are new, start, and wait until the broker serves."""
        if self._process:
            raise KafkaError("the broker is already running")
        config = self.write_config()
        self._prepare(config)
        self._run_position = self._output.stat().st_size if self._output.exists() else 0
        began = time.monotonic()
        self._process = self._spawn(config)
        while not re.search(_STARTED, self._said()):
            if self._process.poll() is not None or time.monotonic() - began > timeout_s:
                last_lines = "\n".join(self.log_lines()[-40:])
                self.kill()
                raise KafkaError(f"the broker did not start:\n{last_lines}")
            time.sleep(0.02)
        self.start_s = time.monotonic() - began

    def stop(self, timeout_s: float = PATIENCE_S) -> None:
        """SIGTERM: controlled shutdown, everything flushed, clean-shutdown file written."""
        self._end(signal.SIGTERM, timeout_s)
        if self._new_archive and self._new_archive.exists():
            self._new_archive.replace(class_archive(self.jars, self._jvm))

    def kill(self) -> None:
        """SIGKILL: nothing is flushed or trimmed, and there is no clean-shutdown file."""
        self._end(signal.SIGKILL, PATIENCE_S)
        if self._zookeeper:
            # A KRaft broker retries its registration; a broker with ZooKeeper gives up at once.
            self._zookeeper.wait_until_nobody_is_left()

    def restart(self) -> None:
        """A clean stop and a start; raises the leader epoch of every partition by two."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Kill processes that still run; a second call has no effect."""
        if self._process:
            self._end(signal.SIGKILL, PATIENCE_S)
        if self._zookeeper:
            self._zookeeper.close()
            self._zookeeper = None
        atexit.unregister(self.close)

    def log_lines(self, pattern: str = "") -> list[str]:
        """The lines logged since the latest start that match a regular expression anywhere."""
        return [line for line in self._said().splitlines() if re.search(pattern, line)]

    def _said(self) -> str:
        with self._output.open("rb") as file:
            file.seek(self._run_position)
            return file.read().decode(errors="replace")

    def wait_for_line(self, pattern: str, *, count: int = 1) -> list[str]:
        """The lines since the latest start that match, once there are `count` of them."""
        until(lambda: len(self.log_lines(pattern)) >= count, f"{count} lines like {pattern!r}")
        return self.log_lines(pattern)

    def tool(
        self, tool: str, *arguments: str, stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """run_tool with this broker's address."""
        return run_tool(
            self.jars,
            tool,
            *arguments,
            bootstrap=self.bootstrap,
            stdin=stdin,
            check=check,
        )

    def __enter__(self) -> Self:
        if not self._process:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _kraft(self) -> bool:
        return self.jars.numbers >= (3, 3)

    def _properties(self) -> dict[str, str]:
        """Small internal topics, loopback addresses only: the machine's name must not end up in the logs."""
        common = {
            "log.dirs": ",".join(map(str, self.log_dirs)),
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        own = self._kraft_properties() if self._kraft else self._zookeeper_properties()
        return common | own | self._own_properties

    def _kraft_properties(self) -> dict[str, str]:
        controller = f"127.0.0.1:{self._controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            **(
                {"controller.quorum.bootstrap.servers": controller}
                if self._is_dynamic
                else {"controller.quorum.voters": f"1@{controller}"}
            ),
            "broker.session.timeout.ms": str(_SESSION_MS),
            "broker.heartbeat.interval.ms": "500",
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
        }

    def _zookeeper_properties(self) -> dict[str, str]:
        return {
            "broker.id": "1",
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "zookeeper.connect": f"127.0.0.1:{self._controller_port}",
            "zookeeper.session.timeout.ms": str(_SESSION_MS),
        }

    def _prepare(self, config: Path) -> None:
        for folder in self.log_dirs:
            folder.mkdir(parents=True, exist_ok=True)
        if not self._kraft:
            if not self._zookeeper:
                self._zookeeper = ZooKeeper(
                    self.jars, self._work, self._controller_port, tick_ms=_SESSION_MS // 4
                )
        elif not (self.log_dir / "meta.properties").exists():
            self._format(config)

    def _format(self, config: Path) -> None:
        """By Kafka's tool the first time. Later brokers get copies of its files, which costs no JVM."""
        kind = self.jars.release, len(self.log_dirs)
        is_new = not any(self._files_in(folder) for folder in self.log_dirs)
        if is_new and kind in _formatted and not self._is_dynamic:
            for folder, files in zip(self.log_dirs, _formatted[kind], strict=True):
                for name, data in files.items():
                    (folder / name).write_bytes(data)
            return
        self.storage_format(config)
        if is_new and not self._is_dynamic:
            _formatted[kind] = [self._files_in(folder) for folder in self.log_dirs]

    @staticmethod
    def _files_in(folder: Path) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    def storage_format(self, config: Path, *options: str) -> subprocess.CompletedProcess[str]:
        """What Kafka's own tool does to new log directories."""
        flags = ["--standalone"] if self._is_dynamic else []
        return run_tool(
            self.jars,
            "storage",
            "format",
            "--ignore-formatted",
            "-c",
            str(config),
            "-t",
            _cluster_id(),
            *flags,
            *options,
        )

    def _spawn(self, config: Path) -> subprocess.Popen[bytes]:
        flags = [*self._archive_flags(), *log_flags(self.jars, self._work, level="INFO", target="out")]
        java = java_command(self.jars, self._jvm, flags)
        command = [*self._run_with, *java, "kafka.Kafka", str(config)]
        with self._output.open("ab") as sink:
            return subprocess.Popen(
                command, cwd=self._work, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT
            )

    def _archive_flags(self) -> list[str]:
        """Application class data sharing halves the start: 2.3 s without, 1.3 s with it, on an idle machine.

        The first broker that is stopped writes the archive, under a temporary name until it is complete.
        """
        if flags := shared_classes(self.jars, self._jvm):
            return flags
        archive = class_archive(self.jars, self._jvm)
        self._new_archive = archive.with_suffix(f".{os.getpid()}-{self._port}")
        return [f"-XX:ArchiveClassesAtExit={self._new_archive}", *NO_WORD_OF_ARCHIVES]

    def _end(self, number: signal.Signals, timeout_s: float) -> None:
        if not self._process:
            raise KafkaError("the broker is not running")
        self._process.send_signal(number)
        self._process.wait(timeout_s)
        self._process = None


def _cluster_id() -> str:
    """A random id as Kafka writes it; one that begins with `-` would be taken for an option."""
    while (name := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return name
