"""Recoveries and compactions on a cluster, with speculation; tasks fail, drivers and executors are killed.

A recovery then leaves the bytes of one in this process. A compaction leaves the same records: one that is
repeated after some swaps finds smaller segments, and may put more of them into one.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stratalog.records.kernels.memory import byte_array
from stratalog.records.reader import read_batches
from tests.cli.compacting import SETTINGS
from tests.cli.planting import Planted
from tests.counting import Count
from tests.directory.recovery.recovering import files_of
from tests.spark.cluster import ROOT, Cluster
from tests.spark.operating import operate
from tests.spark.test_recover import damaged

KILLS = 25  # of each operation
LONGEST_S = 300

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="executors are found in /proc"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def damaged_directory(root: Path) -> None:
    damaged(root, 3)


def dirty_directory(root: Path) -> None:
    with Planted(root, a=SETTINGS, b=SETTINGS) as planted:
        planted.fill("a", 43, keys=7)
        planted.fill("b", 23, keys=3)


@pytest.mark.parametrize(("what", "make"), [("recover", damaged_directory), ("compact", dirty_directory)])
def test_the_bytes_are_those_of_one_process_whoever_is_killed(
    cluster: Cluster, tmp_path: Path, counts: Count, what: str, make: object
) -> None:
    assert callable(make)
    draw = random.Random(KILLS)
    (tmp_path / "made").mkdir()
    make(tmp_path / "made")
    here = shutil.copytree(tmp_path / "made", tmp_path / "here")
    operate(what, here, None)
    began_s = time.monotonic()
    check(what, tmp_path / "made", here, cluster, tmp_path / "unkilled", None)
    usual_s = time.monotonic() - began_s

    kills = attempts = 0
    while kills < KILLS:
        # Beside other work a run takes longer or shorter than the first one, and a kill may come too late.
        attempts += 1
        assert attempts <= 3 * KILLS
        began_s = time.monotonic()
        delay_s = draw.uniform(0.3, 0.9) * usual_s
        victim = draw.choice(["driver", "executor"])
        was_killed = check(
            what, tmp_path / "made", here, cluster, tmp_path / f"killed-{attempts}", (victim, delay_s)
        )
        counts(f"kills of a {what} on a cluster", {victim if was_killed else "too late": 1})
        kills += was_killed
        if not was_killed:
            usual_s = min(usual_s, time.monotonic() - began_s)


def check(
    what: str, made: Path, expected: Path, cluster: Cluster, root: Path, kill: tuple[str, float] | None
) -> bool:
    """Run once, and kill somebody; then run to the end if needed. Returns whether anybody was killed."""
    shutil.copytree(made, root)
    was_killed = False
    with started(what, root, cluster) as process:
        if kill is not None:
            try:
                process.wait(kill[1])
            except subprocess.TimeoutExpired:
                was_killed = kill_one(kill[0], process, cluster)
        code = process.wait(LONGEST_S)
    if was_killed and code == -signal.SIGKILL:
        with started(what, root, cluster) as process:
            code = process.wait(LONGEST_S)
    assert code == 0, (root / "said.txt").read_text("utf-8", errors="replace")[-4000:]
    assert left_in(root, what) == left_in(expected, what)
    shutil.rmtree(root)
    return was_killed


@contextmanager
def started(what: str, root: Path, cluster: Cluster) -> Iterator[subprocess.Popen[bytes]]:
    """The process, in its own process group, which is killed at the end together with its JVM."""
    command = [sys.executable, "-m", "tests.spark.operating", what, str(root), cluster.master]
    with (root / "said.txt").open("ab") as said:
        process = subprocess.Popen(
            command, cwd=ROOT, env=cluster.environ, stdout=said, stderr=said, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def kill_one(victim: str, process: subprocess.Popen[bytes], cluster: Cluster) -> bool:
    if victim == "driver":
        os.killpg(process.pid, signal.SIGKILL)
        return True
    executors = cluster.executor_pids()
    for pid in executors[:1]:
        os.kill(pid, signal.SIGKILL)
    return bool(executors)


def left_in(root: Path, what: str) -> object:
    """The files of a recovered directory, without the times in quarantine; the records of a compacted one."""
    if what == "recover":
        return {name: data for name, data in files_of(root / "data").items() if not name.endswith(".jsonl")}
    return [
        (log.parent.name, record.offset, record.key, record.value)
        for log in sorted((root / "data").glob("*-0/*.log"))
        for batch in read_batches(byte_array(log.read_bytes()))
        for record in batch
    ]
