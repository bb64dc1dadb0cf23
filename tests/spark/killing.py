"""Queries that are killed and restarted while a writer appends and rolls, and checks of their results."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq

import stratalog
from stratalog.directory.recovery.recover import recover_directories
from stratalog.log.api.partition_log import PartitionLog
from tests.jobs.writing.sinking import by_partition, contents_of, staged_in
from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).parent.parent.parent


class Writer(threading.Thread):
    """Appends to two partitions, and later to a third one, until it is stopped."""

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
        draw = random.Random(6)
        while not self.enough.wait(0.05):
            if self.more_partitions.is_set() and len(self.logs) == 2:
                self._open()
            for log, appended in zip(self.logs, self.appended, strict=True):
                values = [b"value %d" % each for each in range(number, number + draw.randint(1, 20))]
                log.append_many(values)
                appended += values
                number += len(values)

    def close(self) -> None:
        self.enough.set()
        self.join()
        for log in self.logs:
            log.close()

    def _open(self) -> None:
        path = self.log_dir / f"orders-{len(self.logs)}"
        self.logs.append(stratalog.open_log(path, create=True, config={"internal.segment.bytes": 20_000}))
        self.appended.append([])


class Queries:
    """Two queries in a separate process, tests/spark/streaming.py, which can be started repeatedly."""

    def __init__(self, home: Path, environ: Mapping[str, str], master: str) -> None:
        self.home, self.environ, self.master = home, environ, master
        (home / "sink").mkdir()

    def kill_at_any_moment(self, draw: random.Random) -> None:
        """Run until each has done a trigger, and kill them within the two seconds after that."""
        before = {name: self.newest(name, "commits") for name in ("sink", "parquet")}
        with self._running("killed") as process:

            def has_gone_on() -> bool:
                assert process.poll() is None, self.said()
                return all(self.newest(name, "commits") > number for name, number in before.items())

            until(has_gone_on, self.said)
            time.sleep(draw.random() * 2)
            assert process.poll() is None, self.said()

    def kill_between_commits(self) -> None:
        """Run until the sink has committed a new batch, and kill it before Spark learns of that."""
        first = self.newest("sink", "offsets") + 1
        process = self._run(str(first))
        assert process.returncode == -signal.SIGKILL, self.said()
        batch = self.newest("sink", "offsets")
        assert batch >= first
        assert self.newest("sink", "commits") == batch - 1

    def run_to_the_end(self) -> None:
        process = self._run("ends")
        assert process.returncode == 0, self.said()

    def forget_a_commit(self) -> None:
        """Make it look as if it was killed after the Parquet files were committed, and before Spark's batch
        was.

        Spark treats everything before the last planned batch as done, so that plan is removed as well.
        """
        last = self.newest("parquet", "commits")
        if (self.home / "parquet" / "_spark_metadata" / str(last + 1)).exists():
            return  # it was
        for folder, batch in (("commits", last), ("offsets", last + 1)):
            for name in (str(batch), f".{batch}.crc"):
                (self._checkpoint("parquet") / folder / name).unlink(missing_ok=True)

    def newest(self, query: str, folder: str) -> int:
        """The last batch that Spark noted in a folder of a query's checkpoint; -1 for none."""
        files = (self._checkpoint(query) / folder).glob("[0-9]*")
        return max((int(file.name) for file in files if file.name.isdecimal()), default=-1)

    def said(self) -> str:
        return (self.home / "said.txt").read_text()

    def _run(self, when: str) -> subprocess.Popen[bytes]:
        """Run to the end; if Spark hangs, kill it and start it once more: that must not change the results.

        What the test prints then has the stacks of its threads, Python's and Java's.
        """
        for _ in range(2):
            with self._running(when) as process:
                try:
                    process.wait(PATIENCE_S / 2)
                    return process
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGQUIT)
                    time.sleep(5)  # nothing tells when the stacks are written
                    print("the queries hang:", self.said())
        raise AssertionError("the queries hang, twice")

    def _checkpoint(self, query: str) -> Path:
        return self.home / "checkpoints" / query

    @contextmanager
    def _running(self, when: str) -> Iterator[subprocess.Popen[bytes]]:
        """The process, in its own process group, which is killed at the end together with its JVM."""
        command = [sys.executable, "-m", "tests.spark.streaming", str(self.home), self.master, when]
        with (self.home / "said.txt").open("wb") as said:
            process = subprocess.Popen(
                command, cwd=ROOT, env=self.environ, stdout=said, stderr=said, start_new_session=True
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def kill_again_and_again(home: Path, environ: Mapping[str, str], *, kills: int, master: str) -> None:
    """Kill the queries this often, let them finish, and compare what they copied."""
    draw = random.Random(6)
    queries = Queries(home, environ, master)
    writer = Writer(home / "logs")
    writer.start()
    try:
        for kill in range(kills):
            if kill % 2:
                queries.kill_at_any_moment(draw)
            else:
                queries.kill_between_commits()
            queries.forget_a_commit()
            writer.more_partitions.set()
        until(lambda: len(writer.appended) == 3 and len(writer.appended[2]) > 0)
    finally:
        writer.close()

    queries.run_to_the_end()
    recover_directories([str(home / "sink")])

    appended = writer.appended
    assert len(appended) == 3
    assert all(len(list((home / "logs" / f"orders-{n}").glob("*.log"))) > 1 for n in range(2))
    rows = pq.read_table(home / "rows.parquet", columns=["partition", "offset", "value"]).to_pylist()
    found: Counter[tuple[int, int, bytes]] = Counter(tuple(row.values()) for row in rows)
    expected = Counter(
        (partition, offset, value)
        for partition, values in enumerate(appended)
        for offset, value in enumerate(values)
    )
    assert (found - expected, expected - found) == (Counter(), Counter())
    copied = by_partition(contents_of(home / "sink"), "copy").values()
    found_values = Counter(value for values in copied for value in values)
    expected_values: Counter[bytes | None] = Counter(value for values in appended for value in values)
    assert (found_values - expected_values, expected_values - found_values) == (Counter(), Counter())
    assert staged_in(home / "sink") == []
