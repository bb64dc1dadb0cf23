"""One embedded Spark for all tests that use the fixture `spark`: starting it takes longer than most of them.

The others start processes with their own Spark, or none. They are independent of the first, so `make
test-spark` runs the two kinds in parallel.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import stratalog
from stratalog.log.new_records import NewRecord
from stratalog.spark.archive import write_archive
from stratalog.spark.session import session
from tests.fixtures.records import T0
from tests.kafka.jars import KafkaUnavailableError
from tests.spark.cluster import MASTER_VARIABLE, QUICK_JVM
from tests.spark.connector import connector_jars

HERE = Path(__file__).parent
# Spark's scripts read these, whoever starts them.
os.environ["SPARK_LAUNCHER_OPTS"] = os.environ["SPARK_SUBMIT_OPTS"] = QUICK_JVM


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            if isinstance(item, pytest.Function) and "spark" in item.fixturenames:
                item.add_marker(pytest.mark.session)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """100 records, a second apart, of one partition."""
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        for number in range(100):
            log.append_many([NewRecord(b"value %d" % number, b"key", (), T0 + 1000 * number)])
    return tmp_path


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    master = os.environ.get(MASTER_VARIABLE, "local[2]")
    with session("tests", master=master, settings=_jars()) as started:
        yield started


@pytest.fixture(scope="session")
def archived(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables for processes whose Spark starts from an archive of its classes, which is written here."""
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}
    write_archive(environ)
    return environ


def _jars() -> dict[str, str]:
    """Spark's own Kafka source, if available: a session gets jars only when it starts."""
    try:
        return {"spark.jars": connector_jars()}
    except KafkaUnavailableError:
        return {}
