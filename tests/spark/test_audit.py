"""An audit on Spark finds what it finds on threads."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stratalog.operations.audit.audit import audit
from stratalog.spark.engine import SparkEngine
from tests.fixtures.catalog import log_dirs
from tests.manager.running import fixture_copy
from tests.operations.audit.planting import DAMAGES


def test_spark_and_threads_agree_on_kafkas_own_directories(spark: SparkSession) -> None:
    here = audit([*log_dirs()], deep=True)

    there = audit([*log_dirs()], deep=True, engine=SparkEngine(spark))

    assert (there.findings, there.totals(), there.audited) == (here.findings, here.totals(), here.audited)
    assert here.totals()["segments"] > 20


def test_spark_and_threads_agree_on_many_damages_at_once(spark: SparkSession, tmp_path: Path) -> None:
    roots = []
    for number, damage in enumerate(DAMAGES):
        root = fixture_copy("clean", tmp_path / f"data-{number}")
        damage.plant(root)
        roots.append(root)

    here = audit(roots, deep=True, mapped=True)
    there = audit(roots, deep=True, mapped=True, engine=SparkEngine(spark))

    assert there.findings == here.findings
    assert there.map == here.map
    assert here.map is not None
    assert len(here.map.regions) > 10
    assert {damage.kind for damage in DAMAGES} <= {finding.kind.value for finding in here.findings}


def test_the_findings_are_a_data_frame(spark: SparkSession, tmp_path: Path) -> None:
    root = fixture_copy("killed", tmp_path / "data")

    report = audit([root], engine=SparkEngine(spark))

    frame = spark.createDataFrame(report.to_arrow())
    assert frame.where("severity = 'note'").count() == report.totals()["notes"] > 0


@pytest.mark.parametrize("is_deep", [False, True])
def test_a_file_that_is_gone_is_named_with_its_path(
    spark: SparkSession, tmp_path: Path, is_deep: bool
) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    log = root / "rolled-0" / "00000000000000000020.log"
    log.unlink()
    log.symlink_to(root / "nowhere")

    report = audit([root], deep=is_deep, engine=SparkEngine(spark))

    assert "rolled-0" in {
        finding.partition for finding in report.findings if finding.severity.value != "note"
    }
