"""How fast are log directories exported to Parquet, against Spark's Kafka source and its Parquet writer?

Both run in one session of two cores, in turns, on 2 GB of records with 16-byte keys and 100-byte values in 4
partitions, in the page cache. Both write Parquet with snappy to a new folder each time; our export divides
the rows by topic and day, and syncs the files before it ends. The rival's consumer is tuned. Its rows go from
the consumer through the JVM into the encoder. Our rows stay in columns: the task that reads them also encodes
them, so most of our time is Parquet's encoding.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.rounds import Rounds
from benchmarks.spark_read import PARTITIONS, RECORDS, TUNED, fill_topic
from stratalog.spark.export import export
from stratalog.spark.session import session
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic
from tests.kafka.jars import resolve
from tests.kafka.tools import AS_SHIPPED
from tests.spark.connector import connector_jars

FLOOR = 8


def filled_broker(root: Path, records: int) -> Broker:
    """A running broker whose directory has the records."""
    broker = Broker(resolve(), root / "broker", properties={"log.retention.ms": "-1"}, jvm=AS_SHIPPED)
    with broker:
        create_topic(broker.bootstrap, "plain", partitions=PARTITIONS)
        broker.stop()
    fill_topic(broker.log_dir, "plain", records // PARTITIONS, codec="none")
    broker.start()
    return broker


def ours(spark: SparkSession, broker: Broker, root: Path, records: int) -> Callable[[], None]:
    def run() -> None:
        target = root / "ours"
        shutil.rmtree(target, ignore_errors=True)
        assert export(spark, broker.log_dir, target, topics="plain").rows == records

    return run


def theirs(spark: SparkSession, broker: Broker, root: Path) -> Callable[[], None]:
    settings = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "plain", **TUNED}

    def run() -> None:
        frame = spark.read.format("kafka").options(**settings).load()
        frame.write.mode("overwrite").parquet(str(root / "theirs"))

    return run


def check(spark: SparkSession, root: Path) -> None:
    """Check that both wrote the same records: the same count, sum of offsets and sum of hashes."""
    sums = "count(*)", "sum(offset)", "sum(hash(key, value, timestamp, partition, offset))"
    found = [spark.read.parquet(str(root / name)).selectExpr(*sums).first() for name in ("ours", "theirs")]
    assert found[0] == found[1], found


def main() -> None:
    rounds = Rounds(__doc__ or "")
    root = Path(tempfile.mkdtemp(prefix="stratalog-spark-export-"))
    records = int(RECORDS * rounds.scale) // PARTITIONS * PARTITIONS
    broker = filled_broker(root, records)
    try:
        with session("spark_export", master="local[2]", settings={"spark.jars": connector_jars()}) as spark:
            rounds.compare(
                "export",
                ours=ours(spark, broker, root, records),
                rival=theirs(spark, broker, root),
                floor=FLOOR,
                work="rows",
                amount=records,
            )
            check(spark, root)
    finally:
        broker.close()
        shutil.rmtree(root)
    rounds.end()


if __name__ == "__main__":
    main()
