"""One embedded Spark for all tests here: starting it takes longer than all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stratalog.spark.session import session
from tests.kafka.jars import KafkaUnavailableError
from tests.spark.connector import connector_jars

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Compiled by the quick compiler only: nothing here runs long enough to repay the other one.
    with session("tests", master="local[2]", settings=_jars()) as started:
        yield started


def _jars() -> dict[str, str]:
    """Spark's own Kafka source, where it can be had: a session gets jars only as it starts."""
    try:
        return {"spark.jars": connector_jars()}
    except KafkaUnavailableError:
        return {}
