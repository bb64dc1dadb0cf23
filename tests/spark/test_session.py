"""The embedded session: its settings, and the messages about missing parts."""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stratalog.errors import MissingDependencyError
from stratalog.installing import install_command
from stratalog.spark.session import require_pyspark, session, version_of


def test_workers_run_the_interpreter_of_the_driver(spark: SparkSession) -> None:
    def executable(batches):  # type: ignore[no-untyped-def]
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"executable": [sys.executable]})

    assert [
        row.executable for row in spark.range(1).mapInArrow(executable, "executable string").collect()
    ] == [sys.executable]


def test_the_environment_is_as_it_was_once_spark_has_started(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.2")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    before = dict(os.environ)

    with session("tests again") as again:  # the one that runs already
        assert dict(os.environ) == before
        assert again.sparkContext is spark.sparkContext

    assert dict(os.environ) == before


def test_time_zone_is_utc(spark: SparkSession) -> None:
    assert spark.sql("select current_timezone()").first()[0] == "UTC"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.execution.arrow.maxBytesPerBatch", "2147483647"),
        ("spark.python.unix.domain.socket.enabled", "true"),
        ("spark.speculation", "false"),
    ],
)
def test_settings_reach_spark(spark: SparkSession, key: str, value: str) -> None:
    assert spark.conf.get(key) == value


def test_a_missing_pyspark_is_told_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)

    with pytest.raises(MissingDependencyError, match=re.escape(install_command("spark"))):
        require_pyspark()


@pytest.mark.parametrize("old", ["3.5.8", "4.0.1", "4.2.0"])
def test_an_older_pyspark_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, old: str) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _name: old)

    with pytest.raises(
        MissingDependencyError, match=rf"pyspark {old} is installed, but 4\.3 or newer is needed"
    ):
        require_pyspark()


def test_release_names_are_read() -> None:
    assert version_of("4.3.0") == (4, 3)
    assert version_of("4.10.0.dev1") == (4, 10)
    assert version_of("unknown") == (0, 0)
