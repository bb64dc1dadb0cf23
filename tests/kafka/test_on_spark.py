"""A recovery on Spark of what brokers left that were killed while they wrote: the bytes of one on threads.

tests/spark/test_recover.py has a tenth as many, of Kafka's own files in the fixtures, for every run.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stratalog.spark.engine import SparkEngine
from stratalog.spark.session import session
from tests.counting import Count
from tests.kafka.log_oracle import LogOracle
from tests.kafka.recovery_quarry import Quarry
from tests.kafka.whole_directories import make_node
from tests.operations.recovering import left_by

RECOVERIES = 60
QUARRIES = 4


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with session("tests", master="local[2]") as started:
        yield started


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(RECOVERIES))
def test_a_recovery_on_spark_leaves_the_bytes_of_one_in_this_process(
    spark: SparkSession,
    log_oracle: LogOracle,
    quarries: Callable[[int], Quarry],
    tmp_path: Path,
    counts: Count,
    seed: int,
) -> None:
    quarry = quarries(seed % QUARRIES)
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
