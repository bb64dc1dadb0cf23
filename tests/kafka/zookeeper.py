"""The ZooKeeper that a broker before KRaft needs, from the jars that come with that broker."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.kafka.jars import KafkaJars
from tests.kafka.ports import wait_until_served
from tests.kafka.tools import FAST_START, java_command, log_flags


class ZooKeeper:
    """A ZooKeeper server on a loopback port, until `close`; its data is in `work`/zookeeper."""

    def __init__(self, jars: KafkaJars, work: Path, port: int, *, tick_ms: int) -> None:
        flags = [
            "-Dzookeeper.admin.enableServer=false",  # its web console would take the fixed port 8080
            *log_flags(jars, work, level="INFO", target="out"),
        ]
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

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
