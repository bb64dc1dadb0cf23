"""The sink under Spark Connect: client and server started from the pip package, in a process of their own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.writing.sinking import by_partition, contents_of, staged_in

SCRIPT = """
import sys
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

logs, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
rows = spark.range(0, 50, 1, 2).selectExpr("cast(id as string) AS value")
rows.write.format("stratalog").mode("append").option("topic", "orders").option("partitions", "2").save(logs)
for _ in range(2):
    stream = spark.readStream.format("stratalog").option("subscribe", "orders")
    writer = stream.option("startingOffsets", "earliest").load(logs).select("value").writeStream
    writer = writer.format("stratalog").option("topic", "copy").option("partitions", "1")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(logs)
    query.awaitTermination()
try:
    rows.write.format("stratalog").mode("append").option("topic", "other").save(logs)
except PySparkException as error:
    print(error)
spark.stop()
"""


def test_batches_and_streams_are_written_and_errors_arrive_in_words(tmp_path: Path) -> None:
    if importlib.util.find_spec("grpc") is None:
        pytest.skip("Spark Connect needs grpcio: pip install 'pyspark[connect]'")
    logs = tmp_path / "logs"
    logs.mkdir()
    # As for Spark's own tests: the server takes any port that is free.
    environ = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_TESTING": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [sys.executable, "-c", SCRIPT, str(logs), str(tmp_path / "checkpoint")]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=600, check=False)

    assert done.returncode == 0, done.stderr
    expected = sorted(b"%d" % number for number in range(50))
    for topic in ("orders", "copy"):
        found = by_partition(contents_of(logs), topic)
        assert sorted(value or b"" for values in found.values() for value in values) == expected
    assert "give the option partitions" in done.stdout
    assert staged_in(logs) == []
