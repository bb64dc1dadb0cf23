"""Lets a real Kafka, if there is one, load the directory, and reads the times from its log lines."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from stratalog.cli.startup.directory import TOPIC
from stratalog.cli.startup.strategies import LoadMeasurement
from stratalog.errors import UsageError

_LOADED = re.compile(rb"Loaded \d+ logs in (\d+)ms")
_LOADED_ONE = re.compile(rf"Completed load of Log\(.* topic={TOPIC}, .* in (\d+)ms".encode())
_CLUSTER_ID = "c3RyYXRhbG9nLWJlbmNoLQ"
_TIMEOUT_S = 3600.0
_LINKED = ".log"
_OLDEST = 4  # the oldest major release whose options and log lines are known here
_JVM = ("-Xmx1G", "-Xms1G", "-XX:+UseG1GC")  # some of the options in kafka-server-start.sh


class Rival:
    """The Kafka in a folder; UsageError if there is none, or no Java to run it with."""

    def __init__(self, kafka: Path) -> None:
        self.kafka = kafka
        jars = kafka / "libs" if (kafka / "libs").is_dir() else kafka
        if not any(jars.glob("kafka_2*.jar")):
            raise UsageError(f"{kafka}: neither a Kafka (with its jars in `libs`) nor a folder of its jars.")
        java = _java()
        if java is None:
            raise UsageError("there is no `java` in JAVA_HOME or on the PATH to run Kafka with.")
        self._command = [java, *_JVM]
        self._classes = ["-cp", f"{jars}/*"]

    def load(self, directory: Path, *, threads: int) -> LoadMeasurement:
        """Let the broker load a copy, because loading recovers the logs; the copy is removed afterwards.

        The .log files of the copy are links to those of the directory, so that the page cache has as much of
        them as for our own loads. The broker finds no damage, so it truncates none of them, and it is killed
        before it could append to one. It does not know the topic, which makes no difference: it sets the logs
        aside only after loading them.
        """
        work = Path(tempfile.mkdtemp(prefix="startup-kafka-", dir=directory.parent))
        try:
            formatted = directory.parent / "formatted"
            if not formatted.exists():
                self._format(formatted, work)
            shutil.copytree(directory, work / "logs", copy_function=_link_logs)
            shutil.copytree(formatted, work / "logs", dirs_exist_ok=True)
            config = work / "server.properties"
            config.write_text(_properties(work / "logs", threads))
            return self._start(config, work)
        finally:
            shutil.rmtree(work)

    def _format(self, folder: Path, work: Path) -> None:
        """Format an empty directory for this broker; its files are the same for each load."""
        config = work / "format.properties"
        config.write_text(_properties(folder, threads=1))
        arguments = ["format", "--ignore-formatted", "-c", str(config), "-t", _CLUSTER_ID]
        command = [*self._command, *self._classes, "kafka.tools.StorageTool", *arguments]
        done = subprocess.run(command, cwd=work, check=False, capture_output=True)
        if done.returncode:
            words = (done.stdout + done.stderr).decode(errors="replace").strip()
            raise UsageError(f"{self.kafka}: Kafka failed to format the copy: {words[-500:]}")

    def _start(self, config: Path, work: Path) -> LoadMeasurement:
        output = work / "broker.log"
        logging = work / "log4j2.properties"
        logging.write_text(
            "appender.out.type=Console\nappender.out.name=out\nappender.out.layout.type=PatternLayout\n"
            "appender.out.layout.pattern=%m%n\nrootLogger.level=info\nrootLogger.appenderRef.out.ref=out\n"
        )
        command = [*self._command, f"-Dlog4j2.configurationFile={logging}", *self._classes]
        with output.open("wb") as sink:
            broker = subprocess.Popen(
                [*command, "kafka.Kafka", str(config)], cwd=work, stdout=sink, stderr=subprocess.STDOUT
            )
        try:
            began = time.monotonic()
            while time.monotonic() - began < _TIMEOUT_S:
                printed = output.read_bytes()
                found = _LOADED.search(printed)
                if found is not None:
                    times = [int(text) / 1000 for text in _LOADED_ONE.findall(printed)]
                    return LoadMeasurement(
                        seconds=int(found[1]) / 1000, partition_seconds=median(times) if times else None
                    )
                if broker.poll() is not None:
                    break
                time.sleep(0.1)
            last_lines = output.read_text(errors="replace")[-1000:]
            raise UsageError(f"the broker did not load its logs:\n{last_lines}")
        finally:
            broker.kill()
            broker.wait()


def find_kafka(environ: Mapping[str, str]) -> Path | None:
    """The folder of a Kafka that this machine has: beside scripts on the PATH, or in the cache of the tests.

    KAFKA_HOME is not looked at: it is the default of the option `--kafka`.
    """
    script = shutil.which("kafka-server-start.sh", path=environ.get("PATH", ""))
    beside = Path(os.path.realpath(script)).parent.parent if script else None
    cache = Path(
        environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", ""), ".cache"), "stratalog", "kafka"
    )
    return next((folder for folder in (beside, *_releases(cache)) if folder and _has_jars(folder)), None)


def _releases(cache: Path) -> Sequence[Path]:
    """The folders of the releases in the cache, newest first."""
    found = [
        (tuple(int(number) for number in folder.name.split(".")), folder)
        for folder in (cache.iterdir() if cache.is_dir() else ())
        if re.fullmatch(r"\d+\.\d+\.\d+", folder.name)
    ]
    return [folder for numbers, folder in sorted(found, reverse=True) if numbers[0] >= _OLDEST]


def _has_jars(folder: Path) -> bool:
    return any(any(place.glob("kafka_2*.jar")) for place in (folder / "libs", folder))


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return (shutil.which("java", path=f"{home}/bin") if home else None) or shutil.which("java")


def _link_logs(source: str, target: str) -> str:
    """A link for a .log file, a copy for the others, which a broker rewrites."""
    if source.endswith(_LINKED):
        os.link(source, target)
        return target
    return shutil.copyfile(source, target)


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
