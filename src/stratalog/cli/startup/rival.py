"""Lets a real Kafka, if there is one, load a copy of the directory, and reads the time from its log line."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from stratalog.errors import UsageError

_LOADED = re.compile(rb"Loaded \d+ logs in (\d+)ms")
_CLUSTER_ID = "c3RyYXRhbG9nLWJlbmNoLQ"
_TIMEOUT_S = 3600.0


def load_with_kafka(kafka: Path, directory: Path, *, threads: int) -> float:
    """The seconds that the Kafka in this folder (its `libs`, or the folder of its jars) takes to load a copy.

    A copy, because loading recovers the logs; it is made next to the directory, and removed afterwards. The
    broker does not know the topic, which makes no difference: it sets the logs aside only after loading them.
    """
    jars = kafka / "libs" if (kafka / "libs").is_dir() else kafka
    if not any(jars.glob("kafka_2*.jar")):
        raise UsageError(f"{kafka}: neither a Kafka (with its jars in `libs`) nor a folder of its jars.")
    java = shutil.which("java")
    if java is None:
        raise UsageError("there is no `java` on the PATH to run Kafka with.")
    work = Path(tempfile.mkdtemp(prefix="startup-kafka-", dir=directory.parent))
    try:
        shutil.copytree(directory, work / "logs", dirs_exist_ok=True)
        config = work / "server.properties"
        config.write_text(_properties(work / "logs", threads))
        command = [java, "-Xmx1G", "-Xms1G", "-XX:+UseG1GC", "-cp", f"{jars}/*"]
        format_logs = ["kafka.tools.StorageTool", "format", "--ignore-formatted", "-c", str(config)]
        subprocess.run([*command, *format_logs, "-t", _CLUSTER_ID], cwd=work, check=True, capture_output=True)
        return _start(command, config, work)
    except subprocess.CalledProcessError as error:
        words = (error.stdout + error.stderr).decode(errors="replace").strip()
        raise UsageError(f"{kafka}: Kafka failed to format the copy: {words[-500:]}") from error
    finally:
        shutil.rmtree(work)


def _start(command: list[str], config: Path, work: Path) -> float:
    output = work / "broker.log"
    logging = work / "log4j2.properties"
    logging.write_text(
        "appender.out.type=Console\nappender.out.name=out\nappender.out.layout.type=PatternLayout\n"
        "appender.out.layout.pattern=%m%n\nrootLogger.level=info\nrootLogger.appenderRef.out.ref=out\n"
    )
    command = [*command[:-2], f"-Dlog4j2.configurationFile={logging}", *command[-2:]]
    with output.open("wb") as sink:
        broker = subprocess.Popen(
            [*command, "kafka.Kafka", str(config)], cwd=work, stdout=sink, stderr=subprocess.STDOUT
        )
    try:
        began = time.monotonic()
        while time.monotonic() - began < _TIMEOUT_S:
            found = _LOADED.search(output.read_bytes())
            if found is not None:
                return int(found[1]) / 1000
            if broker.poll() is not None:
                break
            time.sleep(0.1)
        last_lines = output.read_text(errors="replace")[-1000:]
        raise UsageError(f"the broker did not load its logs:\n{last_lines}")
    finally:
        broker.kill()
        broker.wait()


def _properties(logs: Path, threads: int) -> str:
    port, controller = _free_port(), _free_port()
    return "\n".join(
        [
            "process.roles=broker,controller",
            "node.id=1",
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names=CONTROLLER",
            f"controller.quorum.voters=1@127.0.0.1:{controller}",
            f"log.dirs={logs}",
            f"num.recovery.threads.per.data.dir={threads}",
            "",
        ]
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
