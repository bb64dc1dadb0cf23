"""`estimate` and `erase` on Spark and on threads: the same reports, and the same bytes left."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stratalog.directory.known_topics import TopicSources
from stratalog.engine.engine import Engine
from stratalog.engine.progress import Progress
from stratalog.log.cleaning.erase_selection import Selection
from stratalog.log.cleaning.tally import Prefix
from stratalog.operations.erase.erase_report import ErasureReport
from stratalog.operations.erase.erasure import Erasure
from stratalog.operations.estimate import Estimation
from stratalog.operations.estimate_report import EstimateReport
from stratalog.spark.engine import SparkEngine
from tests.cli.erasing import COUNT, SETTINGS
from tests.cli.planting import Planted
from tests.directory.recovery.recovering import files_of
from tests.fixtures.catalog import log_dirs
from tests.log.model import NOW

CLEAN = [each for each in log_dirs() if each.parent.name == "clean"]


def estimate(root: Path, engine: Engine | None, seen: list[Progress], **asked: object) -> EstimateReport:
    request = Estimation(directories=[str(root)], clock=lambda: NOW, engine=engine, **asked)  # type: ignore[arg-type]
    return request.run(seen.append)


@pytest.mark.parametrize(("root", "draws"), [*zip(CLEAN, (5, 5, None), strict=True)])
def test_an_estimate_is_the_same_on_spark(spark: SparkSession, root: Path, draws: int | None) -> None:
    seen: list[Progress] = []
    asked = {"draws": draws, "prefix": Prefix(size=3), "top": 1000}

    here = estimate(root, None, [], **asked)
    there = estimate(root, SparkEngine(spark), seen, **asked)

    # Keys with equal counts have no order.
    assert in_order(there) == in_order(here)
    assert there.totals()["partitions"] > 3
    assert there.to_arrow().num_rows == there.totals()["partitions"]
    assert seen[-1].bytes_done == seen[-1].bytes_total > 0


def in_order(report: EstimateReport) -> EstimateReport:
    topics = tuple(
        replace(
            topic,
            by_bytes=tuple(sorted(topic.by_bytes, key=repr)),
            by_versions=tuple(sorted(topic.by_versions, key=repr)),
            prefixes=tuple(sorted(topic.prefixes, key=repr)),
        )
        for topic in report.topics
    )
    return replace(report, topics=topics)


def planted_in(root: Path) -> Planted:
    with Planted(root, t=SETTINGS, other=SETTINGS) as planted:
        planted.fill("t", COUNT, keys=3)
        planted.fill("other", COUNT, keys=3)
    return planted


def erase(planted: Planted, root: Path, engine: Engine | None, **options: object) -> ErasureReport:
    return Erasure(
        directories=[str(root)],
        names=["t"],
        selection=Selection.of([b"1"]),
        sources=TopicSources(topic_settings=planted.settings.read_text()),
        clock=lambda: NOW,
        engine=engine,
        **options,  # type: ignore[arg-type]
    ).run()


def test_an_erasure_searched_on_spark_leaves_the_bytes_of_one_on_threads(
    spark: SparkSession, tmp_path: Path
) -> None:
    planted = planted_in(tmp_path)
    here, there = planted.data, Path(shutil.copytree(planted.data, tmp_path / "there"))
    before = files_of(there)

    planned = erase(planted, there, SparkEngine(spark), dry_run=True)
    assert files_of(there) == before
    by_threads = erase(planted, here, None)
    by_spark = erase(planted, there, SparkEngine(spark))

    assert [each.partitions for each in by_spark.directories] == [
        each.partitions for each in by_threads.directories
    ]
    assert by_spark.totals() == planned.totals()
    assert files_of(there) == files_of(here) != before
    assert not any(b"0001" in data for name, data in files_of(there).items() if name.startswith("t-0"))
