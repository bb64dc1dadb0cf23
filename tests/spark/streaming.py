"""A streaming query in a process of its own, so that it can be killed: log directory in, Parquet out.

python -m tests.spark.streaming LOG_DIR OUT CHECKPOINT
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from stratalog.spark.session import session

OFFSETS_PER_TRIGGER = 400


def to_parquet(
    spark: SparkSession, log_dir: Path, out: Path, checkpoint: Path, *, available_now: bool, **options: str
) -> StreamingQuery:
    """A query that writes all records of a log directory, from the earliest on, to Parquet files."""
    frame = (
        spark.readStream.format("stratalog")
        .options(**{"startingOffsets": "earliest"} | options)
        .load(str(log_dir))
    )
    writer = (
        frame.writeStream.format("parquet")
        .option("path", str(out))
        .option("checkpointLocation", str(checkpoint))
    )
    return (writer.trigger(availableNow=True) if available_now else writer).start()


def main() -> None:
    log_dir, out, checkpoint = map(Path, sys.argv[1:])
    with session("a stream to be killed", master="local[2]") as spark:
        limit = {"maxOffsetsPerTrigger": str(OFFSETS_PER_TRIGGER)}
        to_parquet(spark, log_dir, out, checkpoint, available_now=False, **limit).awaitTermination()


if __name__ == "__main__":
    main()
