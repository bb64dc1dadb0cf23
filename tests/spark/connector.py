"""Spark's own Kafka source, the rival and the witness: its jars, from the cache or else by Maven."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.kafka.jars import KafkaUnavailableError, cache_folder

FOLDER = "spark-sql-kafka-4.2.0"


def connector_jars() -> str:
    """The jars separated by commas, for `spark.jars`; KafkaUnavailableError if there are none."""
    folder = cache_folder() / FOLDER
    if not folder.exists():
        _download(folder)
    return ",".join(sorted(str(jar) for jar in folder.glob("*.jar")))


def _download(folder: Path) -> None:
    mvn = shutil.which("mvn")
    if mvn is None:
        raise KafkaUnavailableError(f"no Kafka source for Spark in {folder}, and no `mvn` to get it with")
    pom = Path(__file__).with_name("connector.xml")
    with tempfile.TemporaryDirectory(dir=folder.parent) as partial:
        jars = Path(partial) / "jars"
        command = [mvn, "-B", "-q", "-f", str(pom), "dependency:copy-dependencies"]
        command.append(f"-DoutputDirectory={jars}")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise KafkaUnavailableError(f"mvn failed for Spark's Kafka source:\n{done.stdout[-1500:]}")
        if not folder.exists():  # another process may have been quicker
            jars.rename(folder)
