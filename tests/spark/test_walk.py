"""The walk on Spark gives what it gives on threads."""

from __future__ import annotations

from pyspark.sql import SparkSession

from stratalog.engine.threads import ThreadEngine
from stratalog.files.disk import Disk
from stratalog.jobs.walk import walk_logs
from stratalog.spark.engine import SparkEngine
from tests.fixtures.catalog import log_dirs


def test_spark_and_threads_agree_on_kafkas_own_directories(spark: SparkSession) -> None:
    here = walk_logs(ThreadEngine(), Disk(), log_dirs())

    assert walk_logs(SparkEngine(spark), Disk(), log_dirs()) == here
    assert len(here) > 20
