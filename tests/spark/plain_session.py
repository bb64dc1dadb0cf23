"""A plain session as users start it: what it finds of the topic orders goes to a file.

python tests/spark/plain_session.py LOGS FOUND

The package may be in the environment, in --py-files, or in a file that ADD_PY_FILE names.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrameReader, SparkSession


def main() -> None:
    logs, target = sys.argv[1:]
    builder = SparkSession.builder.config("spark.ui.enabled", "false")
    spark = (builder if "spark.master" in builder._options else builder.master("local[2]")).getOrCreate()
    if "ADD_PY_FILE" in os.environ:
        spark.sparkContext.addPyFile(os.environ["ADD_PY_FILE"])
    found: dict[str, Any] = {"by_name": by_name(spark, logs)}
    if isinstance(found["by_name"], int):
        found["limited"] = [len(reader(spark).load(logs).limit(1).collect()) for _ in range(3)]
    found |= with_the_package(spark, logs)
    found["by_name_after_it"] = by_name(spark, logs)
    Path(target).write_text(json.dumps(found))
    spark.stop()


def reader(spark: SparkSession) -> DataFrameReader:
    return spark.read.format("stratalog").option("onCorruption", "skip")


def by_name(spark: SparkSession, logs: str) -> int | str:
    """How many records there are, or the condition of Spark's error."""
    try:
        return reader(spark).load(logs).count()
    except Exception as error:
        condition = re.search(r"\[([A-Z_]+)\]", str(error))
        return condition[1] if condition else str(error)


def with_the_package(spark: SparkSession, logs: str) -> dict[str, Any]:
    from stratalog.spark import read
    from stratalog.spark.export import export

    told: list[int] = []
    frame = read(spark, logs, onCorruption="skip", on_omission=lambda each: told.append(each.first_offset))
    count = frame.count()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        report = export(spark, logs, folder, onCorruption="skip")
    return {"read": count, "told": sorted(told), "exported": report.rows}


if __name__ == "__main__":
    main()
