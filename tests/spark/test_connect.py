"""Under Spark Connect: client and server started from the pip package, in a process of their own."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import stratalog
from tests.fixtures.records import T0

CLEAN = Path(__file__).parent.parent / "fixtures" / "kafka-4.3.1" / "clean" / "logs"
CODECS_COUNT, TXN_COUNT = 120, 50  # records of these topics, by their dumps

SCRIPT = """
import json, sys
from pathlib import Path
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

clean, home = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
found = {"client": type(spark).__module__}
frame = spark.read.format("stratalog").option("subscribe", "codecs").load(clean)
found["columns"] = frame.columns
found["count"] = frame.count()
found["imported"] = "stratalog" in sys.modules
from stratalog.spark import read
found["pruned"] = read(spark, clean, topics="txn", columns=[]).count()
try:
    spark.read.format("stratalog").option("subscribe", "nothing").load(clean).count()
except PySparkException as error:
    found["error"] = str(error)

def run():
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "40"}
    stream = spark.readStream.format("stratalog").options(**options)
    writer = stream.load(home + "/logs").writeStream.format("parquet").option("path", home + "/out")
    query = writer.option("checkpointLocation", home + "/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    triggers = sorted(Path(home, "checkpoint", "offsets").glob("[0-9]*"))
    return [json.loads(trigger.read_text().splitlines()[-1])["orders"]["0"] for trigger in triggers]

found["triggers"] = run()
found["again"] = run()
rows = spark.read.parquet(home + "/out").orderBy("offset").collect()
found["values"] = [bytes(row.value).decode() for row in rows]
Path(home, "found.json").write_text(json.dumps(found))
spark.stop()
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a client saw."""
    if importlib.util.find_spec("grpc") is None:
        pytest.skip("Spark Connect needs grpcio: pip install 'pyspark[connect]'")
    home = tmp_path_factory.mktemp("connect")
    with stratalog.open_log(home / "logs" / "orders-0", create=True) as log:
        for number in range(100):
            log.append(b"value %d" % number, timestamp=T0 + number)
    # As for Spark's own tests: the server takes any port that is free.
    environ = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_TESTING": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [sys.executable, "-c", SCRIPT, str(CLEAN), str(home)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    parsed: dict[str, Any] = json.loads((home / "found.json").read_text())
    return parsed


def test_the_source_is_found_and_read(found: dict[str, Any]) -> None:
    assert found["client"] == "pyspark.sql.connect.session"
    assert not found["imported"]  # what the server has is enough
    assert found["columns"] == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert (found["count"], found["pruned"]) == (CODECS_COUNT, TXN_COUNT)


def test_errors_arrive_in_words(found: dict[str, Any]) -> None:
    assert "subscribe names nothing, which is not in" in found["error"]


def test_a_stream_runs_in_triggers_and_each_record_comes_once(found: dict[str, Any]) -> None:
    assert found["triggers"] == found["again"] == [40, 80, 100]
    assert found["values"] == [f"value {number}" for number in range(100)]
