"""`stratalog.scan` and the source on Spark give the same rows."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import stratalog
from stratalog.jobs.reading.options import ReadOptions
from stratalog.log.new_records import NewRecord
from stratalog.scanning.scan import Scan
from stratalog.scanning.sources import RecordSource
from tests.fixtures.records import T0
from tests.profile import examples
from tests.spark.test_source_kafka import CASES, FIXTURE, SEEDED, SEEDED_PARTITIONS, SEEDED_RECORDS, Case

FIXTURES = Path(__file__).parent.parent / "fixtures"
EVERYTHING = {"includeHeaders": "true", "includeBatchMetadata": "true", "includeControl": "true"}
ORDER = ["topic", "partition", "offset"]


def of_spark(spark: SparkSession, path: Path, options: dict[str, str]) -> list[dict[str, Any]]:
    frame = spark.read.format("stratalog").options(**options).load(str(path))
    rows: list[dict[str, Any]] = frame.orderBy(*ORDER).toArrow().to_pylist()
    return rows


def of_scan(path: Path, options: dict[str, str]) -> list[dict[str, Any]]:
    parsed = ReadOptions.parse({"path": str(path), **options})
    scan = Scan(RecordSource.of(parsed, 2), parsed.columns)
    rows: list[dict[str, Any]] = scan.to_table().to_pylist()
    assert scan.count() == len(rows)
    return rows


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the queries, with the topic that a broker is given there."""
    work = tmp_path_factory.mktemp("scan")
    for partition in range(SEEDED_PARTITIONS):
        with stratalog.open_log(work / f"{SEEDED}-{partition}", create=True) as log:
            for number in range(SEEDED_RECORDS):
                headers = (("h", b"%d" % number),) if number % 3 else ()
                log.append_many([NewRecord(b"v%d" % number, b"k", headers, T0 + 1000 * number)])
    logs = Path(shutil.copytree(FIXTURE, work / "logs"))
    for made in work.glob(f"{SEEDED}-*"):
        shutil.move(made, logs / made.name)
    return logs


@pytest.mark.parametrize("release", ["4.3.1", "3.9.2", "2.8.2"])
@pytest.mark.parametrize("state", ["clean", "killed"])
def test_on_every_fixture(spark: SparkSession, release: str, state: str) -> None:
    logs = FIXTURES / f"kafka-{release}" / state / "logs"

    assert of_scan(logs, EVERYTHING) == of_spark(spark, logs, EVERYTHING)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_on_the_inputs_of_the_queries(spark: SparkSession, seeded: Path, case: Case) -> None:
    assert of_scan(seeded, case.options) == of_spark(spark, seeded, case.options)


@pytest.mark.parametrize("seed", range(examples(20, quick=2, ci=2)))
def test_on_a_fresh_directory(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    config = {"internal.segment.bytes": chance.choice([2000, 20_000]), "index.interval.bytes": 300}
    for partition in range(chance.randrange(1, 4)):
        with stratalog.open_log(tmp_path / f"orders-{partition}", create=True, config=config) as log:
            for _ in range(chance.randrange(60)):
                records = [
                    NewRecord(
                        None if chance.random() < 0.1 else chance.randbytes(chance.randrange(50)),
                        None if chance.random() < 0.2 else b"%d" % chance.randrange(30),
                        (("h", None), ("h", b"x")) if chance.random() < 0.2 else (),
                        T0 + chance.randrange(100_000),
                    )
                    for _ in range(chance.randrange(1, 9))
                ]
                log.append_many(records, codec=chance.choice(["none", "gzip", "snappy", "lz4", "zstd"]))

    assert of_scan(tmp_path, EVERYTHING) == of_spark(spark, tmp_path, EVERYTHING)
