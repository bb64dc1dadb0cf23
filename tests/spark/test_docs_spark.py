"""The examples of docs/spark.md run, on a directory that a real broker left."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from stratalog.jobs.reading.options import _KNOWN
from tests.spark.streaming import TRIES, is_sparks_own

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "spark.md").read_text("utf-8")
LOGS = str(ROOT / "tests" / "fixtures" / "kafka-4.3.1" / "clean" / "logs")


def test_the_examples_run(spark: SparkSession, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {"spark": spark, "LOGS": LOGS, "HOME": str(tmp_path)}

    for block in blocks:
        run(block, names)

    assert blocks


def run(block: str, names: dict[str, object]) -> None:
    """Run an example; a query that Spark itself failed is started again, over its checkpoint."""
    for _ in range(TRIES):
        try:
            exec(compile(block, "docs/spark.md", "exec"), names)
        except StreamingQueryException as error:
            if not is_sparks_own(error):
                raise
            continue
        return
    raise AssertionError(f"Spark itself failed, {TRIES} times over")


def test_each_option_has_its_place() -> None:
    wanted = set(_KNOWN) - {"path", "paths"}

    assert [name for name in sorted(wanted) if f"`{name}`" not in TEXT] == []
