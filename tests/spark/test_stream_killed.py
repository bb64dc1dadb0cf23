"""A query that is killed and started again while a writer appends and rolls: each record once, in Parquet."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import stratalog
from stratalog.log.embedded import PartitionLog
from tests import profile
from tests.spark.streaming import to_parquet

KILLS = 20 if profile.current() == profile.DEEP else 3
MINUTES = 5  # that a query gets to come to its next trigger, on a machine with other work
ROOT = Path(__file__).parent.parent.parent


class Writer(threading.Thread):
    """Appends to two partitions, and to a third one later, until it is told to stop."""

    def __init__(self, log_dir: Path) -> None:
        super().__init__()
        self.log_dir = log_dir
        self.appended: list[list[bytes]] = []
        self.enough = threading.Event()
        self.more_partitions = threading.Event()
        self.logs: list[PartitionLog] = []
        for _ in range(2):
            self._open()

    def run(self) -> None:
        number = 0
        while not self.enough.wait(0.02):
            if self.more_partitions.is_set() and len(self.logs) == 2:
                self._open()
            for log, appended in zip(self.logs, self.appended, strict=True):
                for _ in range(5):
                    log.append(b"value %d" % number)
                    appended.append(b"value %d" % number)
                    number += 1

    def close(self) -> None:
        self.enough.set()
        self.join()
        for log in self.logs:
            log.close()

    def _open(self) -> None:
        path = self.log_dir / f"orders-{len(self.logs)}"
        self.logs.append(stratalog.open_log(path, create=True, config={"internal.segment.bytes": 20_000}))
        self.appended.append([])


def newest(folder: Path) -> int:
    """The number of the last trigger that Spark noted in a folder of a checkpoint; -1 for none."""
    return max((int(file.name) for file in folder.glob("[0-9]*") if file.name.isdecimal()), default=-1)


def run_and_kill(home: Path, chance: random.Random) -> None:
    """Run the query in a process of its own until it has done a trigger, and kill it a moment later."""
    before = newest(home / "checkpoint" / "commits")
    command = [sys.executable, "-m", "tests.spark.streaming"]
    paths = [str(home / name) for name in ("logs", "out", "checkpoint")]
    with (home / "query.txt").open("wb") as words:
        process = subprocess.Popen(
            command + paths, cwd=ROOT, stdout=words, stderr=words, start_new_session=True
        )
        try:
            end = time.monotonic() + 60 * MINUTES
            while newest(home / "checkpoint" / "commits") <= before:
                said = (home / "query.txt").read_text()
                assert process.poll() is None, said
                assert time.monotonic() < end, said
                time.sleep(0.01)
            time.sleep(chance.random() * 2)
            assert process.poll() is None, (home / "query.txt").read_text()
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # its JVM too
            process.wait()


def test_every_record_is_there_once_however_often_the_query_is_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(6)
    commits = tmp_path / "checkpoint" / "commits"
    writer = Writer(tmp_path / "logs")
    writer.start()
    try:
        for kill in range(KILLS):
            run_and_kill(tmp_path, chance)
            if kill % 3 == 1:
                # As if it had been killed between the commit of the files and Spark's own.
                (commits / str(newest(commits))).unlink()
            writer.more_partitions.set()
    finally:
        writer.close()
    folders = tmp_path / "out", tmp_path / "checkpoint"

    to_parquet(spark, tmp_path / "logs", *folders, available_now=True).awaitTermination()

    found = Counter(
        (row.partition, row.offset, bytes(row.value))
        for row in spark.read.parquet(str(tmp_path / "out")).collect()
    )
    assert found == Counter(
        (partition, offset, value)
        for partition, appended in enumerate(writer.appended)
        for offset, value in enumerate(appended)
    )
    assert len(writer.appended) == 3
    assert all(len(list((tmp_path / "logs" / f"orders-{n}").glob("*.log"))) > 1 for n in range(2))


pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="kills a group of processes")
