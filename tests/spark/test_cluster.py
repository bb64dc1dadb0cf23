"""On a real standalone cluster: the tests of reading, writing and streaming once more, and queries killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.cluster import MASTER_VARIABLE, Cluster
from tests.spark.killing import kill_again_and_again

HERE = Path(__file__).parent
SUBJECTS = ["source", "stream", "sink", "tables", "export", "engine", "workers", "listening"]
SUBJECTS += ["audit", "recover", "compaction", "operations"]

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(not hasattr(os, "killpg"), reason="Spark's scripts are for a Unix shell"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def test_what_holds_in_one_process_holds_on_a_cluster(cluster: Cluster) -> None:
    """In a process of its own, as one process has one Spark."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [str(HERE / f"test_{subject}.py") for subject in SUBJECTS]
    environ = cluster.environ | {MASTER_VARIABLE: cluster.master}

    done = subprocess.run(
        command,
        cwd=HERE.parent.parent,
        env=environ,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert min(cluster.executors()) > 0


def test_every_record_is_there_once_though_drivers_of_the_cluster_are_killed(
    cluster: Cluster, tmp_path: Path
) -> None:
    kill_again_and_again(tmp_path, cluster.environ, kills=2, master=cluster.master)
