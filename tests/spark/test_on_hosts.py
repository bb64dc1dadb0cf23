"""Each host of a cluster reads its own disks: two workers, told apart by their names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from socket import gethostname

import pytest
from pyspark.sql import SparkSession

from stratalog.files.reading import DiskReader
from stratalog.spark.engine import SparkEngine
from stratalog.spark.on_hosts import host_in, slots_count
from tests.manager.running import fixture_copy
from tests.operations.audit.planting import DAMAGES
from tests.spark.cluster import MASTER_VARIABLE, Cluster
from tests.waiting import PATIENCE_S


def host_and_process(_: DiskReader, host: str) -> tuple[str, int]:
    return host, os.getpid()


@pytest.mark.skipif(MASTER_VARIABLE in os.environ, reason="an embedded Spark has one host")
def test_a_function_runs_once_on_a_host_of_several_cores(spark: SparkSession) -> None:
    found = SparkEngine(spark).run_on_hosts(host_and_process)

    ((name, result),) = found.items()
    assert isinstance(result, tuple)
    assert result[0] == name
    assert result[1] != os.getpid()


@pytest.mark.skipif(MASTER_VARIABLE in os.environ, reason="the settings of an embedded Spark can be changed")
@pytest.mark.parametrize("count", [1, 7])
def test_tasks_were_as_many_as_default_parallelism_says(spark: SparkSession, count: int) -> None:
    """Fewer than cores: some hosts are never asked. More: a barrier stage never starts."""
    context = spark.sparkContext
    conf = context._jsc.sc().conf()
    conf.set("spark.default.parallelism", str(count))
    try:
        assert context.defaultParallelism == count
        assert slots_count(context) == 2
        found = SparkEngine(spark).run_on_hosts(host_and_process)
    finally:
        conf.remove("spark.default.parallelism")

    assert len(found) == 1


def test_the_host_is_the_one_in_the_command_line_of_an_executor() -> None:
    command = "org.apache.spark.executor.CoarseGrainedExecutorBackend --executor-id 0 --hostname b1 --cores 2"

    assert host_in(command) == "b1"
    assert host_in("org.apache.spark.deploy.SparkSubmit pyspark-shell") == host_in(None) == gethostname()


@pytest.fixture(scope="module")
def own_directories(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A directory for each of two workers, with one kind of damage in each."""
    copies = [fixture_copy("clean", tmp_path_factory.mktemp("own") / "data") for _ in range(2)]
    for damage, copy in zip(DAMAGES, copies, strict=False):
        damage.plant(copy)
    return copies


def by_host(command: str, directories: Sequence[Path], home: Path) -> subprocess.CompletedProcess[str]:
    """The command on a cluster of two workers with other names. A third host is asked for, but not there."""
    first, second = directories
    places = [f"127.0.0.1:{first}", f"127.0.0.2:{second}", f"127.0.0.3:{first}"]
    # Which would be fewer tasks than hosts.
    fewer_tasks = {"PYSPARK_SUBMIT_ARGS": "--conf spark.default.parallelism=1 pyspark-shell"}
    with Cluster(home, hosts=("127.0.0.1", "127.0.0.2")) as cluster:
        return subprocess.run(
            [
                *(sys.executable, "-c", "from stratalog.cli.main import main; main()"),
                *(command, *places, "--by-host", "--master", cluster.master, "--json"),
            ],
            env=cluster.environ | fewer_tasks,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )


def test_two_workers_each_audit_a_directory_of_their_own(own_directories: list[Path], tmp_path: Path) -> None:
    first, second = own_directories

    audit = by_host("audit", own_directories, tmp_path / "cluster")

    assert audit.returncode == 3, audit.stderr
    findings = json.loads(audit.stdout)["findings"]
    kinds = {(each["directory"], each["kind"]) for each in findings}
    assert (f"127.0.0.1:{first}", DAMAGES[0].kind) in kinds
    assert (f"127.0.0.2:{second}", DAMAGES[1].kind) in kinds
    assert (f"127.0.0.3:{first}", "unreadable") in kinds
    (unplaced,) = [each for each in findings if each["kind"] == "unreadable"]
    assert unplaced["words"] == "No executor runs on this host. The hosts are: 127.0.0.1, 127.0.0.2."


@pytest.mark.deep
def test_two_workers_each_estimate_a_directory_of_their_own(
    own_directories: list[Path], tmp_path: Path
) -> None:
    estimate = by_host("estimate", own_directories, tmp_path / "cluster")

    assert estimate.returncode == 3, estimate.stderr
    topics = {topic["topic"] for topic in json.loads(estimate.stdout)["topics"]}
    assert {"127.0.0.1:rolled", "127.0.0.2:rolled"} <= topics
