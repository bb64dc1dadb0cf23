"""A client of Spark Connect that reads, streams and writes, and reports what it saw in HOME/found.json.

python tests/spark/connect_client.py CLEAN HOME

CLEAN is the directory of a broker, HOME has the log directory `logs` with the topic `orders`. The package is
imported only where a comment says so: otherwise the server's copy is enough.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter


def main() -> None:
    clean, home = sys.argv[1:]
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    found = {"client": type(spark).__module__}
    found |= read(spark, clean)
    found |= stream(spark, home)
    found |= write(spark, home)
    Path(home, "found.json").write_text(json.dumps(found))
    spark.stop()


def read(spark: SparkSession, clean: str) -> dict[str, Any]:
    frame = spark.read.format("stratalog").option("subscribe", "codecs").load(clean)
    found = {"columns": frame.columns, "count": frame.count(), "imported": "stratalog" in sys.modules}
    from stratalog.spark import read

    found["pruned"] = read(spark, clean, topics="txn", columns=[]).count()
    told: list[tuple[int, int | None]] = []
    before = read(
        spark,
        clean,
        topics="trimmed",
        failOnDataLoss=False,
        startingOffsets='{"trimmed": {"0": 3}}',
        on_omission=lambda each: told.append((each.first_offset, each.end_offset)),
    )
    found["trimmed"], found["told"] = before.count(), told
    try:
        spark.read.format("stratalog").option("subscribe", "nothing").load(clean).count()
    except PySparkException as error:
        found["read_error"] = str(error)
    return found


def stream(spark: SparkSession, home: str) -> dict[str, Any]:
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "40"}

    def triggers() -> list[int]:
        """Where each trigger so far has ended."""
        frame = spark.readStream.format("stratalog").options(**options).load(home + "/logs")
        run(frame.writeStream.format("parquet").option("path", home + "/out"), home + "/checkpoint")
        files = sorted(Path(home, "checkpoint", "offsets").glob("[0-9]*"))
        return [json.loads(file.read_text().splitlines()[-1])["orders"]["0"] for file in files]

    found: dict[str, Any] = {"triggers": triggers(), "again": triggers()}
    rows = spark.read.parquet(home + "/out").orderBy("offset").collect()
    found["values"] = [bytes(row.value).decode() for row in rows]
    return found


def write(spark: SparkSession, home: str) -> dict[str, Any]:
    logs = home + "/written"
    Path(logs).mkdir()
    rows = spark.range(0, 50, 1, 2).selectExpr("cast(id as string) AS value")
    writer = rows.write.format("stratalog").mode("append")
    writer.option("topic", "batch").option("partitions", "2").save(logs)
    for _ in range(2):
        reader = spark.readStream.format("stratalog").option("subscribe", "batch")
        frame = reader.option("startingOffsets", "earliest").load(logs).select("value")
        sink = frame.writeStream.format("stratalog").option("topic", "stream").option("partitions", "1")
        run(sink.option("path", logs), home + "/written-checkpoint")
    try:
        rows.write.format("stratalog").mode("append").option("topic", "other").save(logs)
    except PySparkException as error:
        return {"write_error": str(error)}
    return {}


def run(writer: DataStreamWriter, checkpoint: str) -> None:
    """Run to the end. Spark gives a Python process ten seconds to start, on a busy machine too few."""
    while True:
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except PySparkException as error:
            if "Python worker failed to connect back" not in str(error):
                raise
            continue
        return


if __name__ == "__main__":
    main()
