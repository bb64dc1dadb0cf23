"""How fast does Spark write rows into a log directory, against Spark's Kafka sink and a broker?

Both run in one session of two cores, in turns, and write 5 million rows of `spark.range`, with 16-byte keys
and 100-byte values, into 4 partitions. The rival's producers linger for 50 ms, send batches of 128 KiB and
wait for one broker, which does not sync. The rival's topics and our directories are new for each round. In
`write`, our staged segments and the commit are synced; in `write_nosync` they are not. Both sides must first
create the rows and get them out of the JVM, so neither figure can be large.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.rounds import Rounds
from stratalog.spark.session import session
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic
from tests.kafka.jars import resolve
from tests.kafka.tools import AS_SHIPPED
from tests.spark.connector import connector_jars

ROWS = 5_000_000
PARTITIONS = 4
TASKS = 4
PRODUCER = {"kafka.acks": "1", "kafka.linger.ms": "50", "kafka.batch.size": str(128 << 10)}


def rows(spark: SparkSession, amount: int) -> DataFrame:
    return spark.range(0, amount, 1, TASKS).selectExpr(
        "cast(lpad(cast(id AS string), 16, '0') AS binary) AS key",
        "cast(rpad(concat('{\"id\": ', id, ', \"text\": \"'), 100, 'x') AS binary) AS value",
    )


def theirs(frame: DataFrame, broker: Broker, topics: Iterator[int]) -> Callable[[], float]:
    """The seconds that a write to a new topic takes."""

    def run() -> float:
        options = PRODUCER | {
            "kafka.bootstrap.servers": broker.bootstrap,
            "topic": _new_topic(broker, topics),
        }
        began = time.perf_counter()
        frame.write.format("kafka").options(**options).save()
        return time.perf_counter() - began

    return run


def ours(frame: DataFrame, root: Path, amount: int, *, sync: bool) -> Callable[[], float]:
    """The seconds that a write to a new directory takes; the directory is removed afterwards."""

    def run() -> float:
        directory = Path(tempfile.mkdtemp(dir=root))
        writer = frame.write.format("stratalog").mode("append").option("topic", "rows")
        writer = writer.options(partitions=str(PARTITIONS), sync=str(sync).lower())
        began = time.perf_counter()
        writer.save(str(directory))
        seconds = time.perf_counter() - began
        assert sum(log.stat().st_size for log in directory.glob("rows-*/*.log")) > 116 * amount
        shutil.rmtree(directory)
        return seconds

    return run


def _new_topic(broker: Broker, topics: Iterator[int]) -> str:
    topic = f"rows-{next(topics)}"
    create_topic(broker.bootstrap, topic, partitions=PARTITIONS, config={"retention.bytes": "1"})
    return topic


def main() -> None:
    rounds = Rounds(__doc__ or "")
    amount = int(ROWS * rounds.scale)
    root = Path(tempfile.mkdtemp(prefix="stratalog-spark-write-"))
    broker = Broker(resolve(), root / "broker", jvm=AS_SHIPPED)
    try:
        broker.start()
        topics = count()
        with session("spark_write", master="local[2]", settings={"spark.jars": connector_jars()}) as spark:
            frame = rows(spark, amount)
            rival = theirs(frame, broker, topics)
            for figure, sync, floor in (("write", True, 1.5), ("write_nosync", False, 1)):
                mine = ours(frame, root, amount, sync=sync)
                rounds.compare_times(figure, ours=mine, rival=rival, floor=floor, unit="s")
    finally:
        broker.close()
        shutil.rmtree(root)
    rounds.end()


if __name__ == "__main__":
    main()
