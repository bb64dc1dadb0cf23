"""Operations whose tasks run on Spark, on what real brokers left: the same result as in this process.

One Spark session serves the whole file: it takes longer to start than most of these tests.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stratalog.spark.engine import SparkEngine
from stratalog.spark.session import session
from tests import profile
from tests.counting import Count
from tests.kafka.log_oracle import LogOracle
from tests.kafka.recovery_quarry import Quarry
from tests.kafka.whole_directories import make_node
from tests.operations.recovering import left_by

RECOVERIES = 60
QUARRIES = {profile.QUICK: 1, profile.CI: 1, profile.DEEP: 4}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with session("tests", master="local[2]") as started:
        yield started


@pytest.mark.parametrize("seed", range(profile.examples(RECOVERIES, quick=2, ci=6)))
def test_a_recovery_on_spark_leaves_the_bytes_of_one_in_this_process(
    spark: SparkSession,
    log_oracle: LogOracle,
    quarries: Callable[[int], Quarry],
    tmp_path: Path,
    counts: Count,
    seed: int,
) -> None:
    quarry = quarries(seed % QUARRIES[profile.current()])
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    node = make_node(quarry, seed, here, log_oracle)
    shutil.copytree(here, there)
    options = {"scan_all": seed % 3 == 0, "salvage": seed % 5 == 0}

    by_threads = left_by(None, here, node.log_dirs, **options)
    moved = [there / directory.relative_to(here) for directory in node.log_dirs]
    by_spark = left_by(SparkEngine(spark), there, moved, **options)

    assert by_spark == by_threads, str(node)
    counts("recoveries on Spark", {"of one directory" if len(moved) == 1 else "of two directories": 1})
