"""The ZooKeeper that a broker before KRaft needs, from the jars that come with that broker."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

from tests.kafka.jars import KafkaJars
from tests.kafka.ports import wait_until_served
from tests.kafka.tools import FAST_START, java_command, log_flags
from tests.waiting import PATIENCE_S, until


class ZooKeeper:
    """A ZooKeeper server on a loopback port, until `close`; its data is in `work`/zookeeper."""

    def __init__(self, jars: KafkaJars, work: Path, port: int, *, tick_ms: int) -> None:
        flags = [
            "-Dzookeeper.admin.enableServer=false",  # its web console would take the fixed port 8080
            "-Dzookeeper.4lw.commands.whitelist=dump",
            *log_flags(jars, work, level="INFO", target="out"),
        ]
        self._port = port
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        command = [
            *java_command(jars, FAST_START, flags),
            main,
            str(port),
            str(work / "zookeeper"),
            str(tick_ms),
        ]
        with (work / "zookeeper.log").open("ab") as sink:
            self._process = subprocess.Popen(
                command, cwd=work, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT
            )
        wait_until_served(port, self._process)

    def wait_until_nobody_is_left(self) -> None:
        """Return when the sessions of brokers that were killed have run out."""
        until(lambda: b"/brokers/ids/" not in self._ask(b"dump"), "the sessions of brokers run out")

    def _ask(self, command: bytes) -> bytes:
        """What it answers to one of its commands of four letters."""
        with socket.create_connection(("127.0.0.1", self._port), PATIENCE_S) as peer:
            peer.sendall(command)
            with peer.makefile("rb") as answer:
                return answer.read()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
