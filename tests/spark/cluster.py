"""A standalone cluster on this machine, from the pip package: a master, and two workers of a core each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import pyspark

from stratalog.spark.java import java_variables
from tests.waiting import until

# Names the master to tests that run on embedded Spark without it.
MASTER_VARIABLE = "STRATALOG_TEST_MASTER"
# Every JVM of these tests uses only the quick compiler and a single-threaded collector, because none runs
# long enough to benefit from more.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SPARK_HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).parent.parent.parent
# As an operator writes it: the driver and the daemons read their settings from this folder.
DEFAULTS = f"""
spark.executor.memory 512m
spark.executor.cores 1
spark.executor.extraJavaOptions {QUICK_JVM}
spark.driver.host 127.0.0.1
spark.ui.enabled false
"""


class Cluster:
    """Runs from `with` to its end. Drivers are given `master` and `environ`; `hosts` are those of workers."""

    def __init__(self, home: Path, hosts: tuple[str, str] = ("127.0.0.1", "127.0.0.1")) -> None:
        self._home = home
        self._hosts = hosts
        self._stack = ExitStack()
        (home / "conf").mkdir(parents=True)
        (home / "conf" / "spark-defaults.conf").write_text(DEFAULTS)
        self.environ = {
            **os.environ,
            **java_variables(os.environ),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),  # functions of tests are sent by their names
            "SPARK_CONF_DIR": str(home / "conf"),
            "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        self.master = ""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._stack = stack
            self._start("master", "127.0.0.1", "deploy.master.Master", "--port", "0")
            self.master = self._wait_for("master", r"Starting Spark master at (spark://\S+)")
            for name, host in zip(("worker-1", "worker-2"), self._hosts, strict=True):
                more = ["--cores", "1", "--memory", "512m", "--work-dir", str(self._home / name)]
                self._start(name, host, "deploy.worker.Worker", *more, self.master)
                self._wait_for(name, r"(Successfully registered) with master")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def executors(self) -> list[int]:
        """How many executors each worker has started."""
        return [self._said(name).count("Asked to launch executor") for name in ("worker-1", "worker-2")]

    def executor_pids(self) -> list[int]:
        """The processes of the executors that run now; each has its folder below a worker's."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    is_ours = (entry / "cwd").readlink().is_relative_to(self._home)
                    if is_ours and b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
        return found

    def _start(self, name: str, host: str, role: str, *arguments: str) -> None:
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.{role}"]
        command += ["--host", host, "--webui-port", "0", *arguments]
        with (self._home / f"{name}.txt").open("wb") as said:
            process = subprocess.Popen(
                command, env=self.environ | {"SPARK_LOCAL_IP": host}, stdout=said, stderr=said
            )
        self._stack.callback(_end, process)

    def _wait_for(self, name: str, pattern: str) -> str:
        until(lambda: re.search(pattern, self._said(name)), lambda: self._said(name))
        found = re.search(pattern, self._said(name))
        assert found is not None
        return found[1]

    def _said(self, name: str) -> str:
        return (self._home / f"{name}.txt").read_text("utf-8", errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()
