"""How fast does Spark read Kafka's data from its log directories, against Spark's Kafka source and a broker?

Both run in one session of two cores, in turns, on 2 GB of records with 16-byte keys and 100-byte values in 4
partitions, in the page cache, and both verify checksums. Moving rows into the JVM takes four fifths of our
time: if all else cost nothing, `read` would rise by a quarter. `columns` asks for values only: with a schema
of fewer columns, less is moved. `split` reads a single large partition, which our source splits for both
cores by default. `zstd` reads compressed records. The rival is tuned, except in `read_default`. Two figures
do not compare times with the rival: `prune` is the bytes of the directory divided by the bytes read for one
hour of a week, and `flat` is four times the time for 1 GB divided by the time for 4 GB.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import stratalog
from benchmarks.rounds import Rounds
from stratalog.jobs.reading.options import ReadOptions
from stratalog.jobs.reading.plan import plan_read
from stratalog.jobs.reading.read import read_task
from stratalog.records.compression import CodecName
from stratalog.spark.session import session
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic
from tests.kafka.jars import resolve
from tests.kafka.tools import AS_SHIPPED
from tests.spark.connector import connector_jars

RECORDS = 16_000_000  # 2 GB
PARTITIONS = 4
RECORDS_IN_A_BATCH = 259  # about 32 KiB
DIFFERENT_VALUES = 32_768
WEEK_MS, HOUR_MS = 7 * 24 * 3_600_000, 3_600_000
T0 = 1_700_000_000_000
TUNED = {
    "kafka.max.poll.records": "5000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
}
QUERY = "count(*) AS rows", "sum(length(value)) AS bytes", "max(offset) AS last"


def fill(directory: Path, count: int, *, codec: CodecName) -> None:
    """Write `count` records over a week with our own log. A broker can start with it as with its own log."""
    seed = np.random.default_rng(7)
    values = [f'{{"id": {number:8d}, "text": "'.ljust(98, "x") + '"}' for number in range(DIFFERENT_VALUES)]
    dictionary = pa.array([value.encode()[:100] for value in values], pa.binary())
    config = {"segment.bytes": 128 << 20}
    with stratalog.open_log(directory, create=True, config=config) as log:
        for start in range(0, count, RECORDS_IN_A_BATCH):
            rows = min(RECORDS_IN_A_BATCH, count - start)
            numbers = np.arange(start, start + rows)
            table = pa.table(
                {
                    "key": pa.array([b"key %012d" % number for number in numbers.tolist()], pa.binary()),
                    "value": dictionary.take(pa.array(seed.integers(0, DIFFERENT_VALUES, rows))),
                    "timestamp": pa.array(T0 + numbers * WEEK_MS // count),
                }
            )
            log.append_arrow(table, codec=codec)


def fill_topic(log_dir: Path, topic: str, count: int, *, codec: CodecName) -> None:
    """Write `count` records to the first partition, and copy its files to the others."""
    first = log_dir / f"{topic}-0"
    fill(first, count, codec=codec)
    for partition in range(1, PARTITIONS):
        other = log_dir / f"{topic}-{partition}"
        other.mkdir(exist_ok=True)
        for file in first.iterdir():
            if file.name != "partition.metadata":  # each partition keeps the broker's file
                shutil.copyfile(file, other / file.name)


class Data:
    """A broker's directory with the topics `plain` and `zstd`, and one without a broker, for `flat`."""

    def __init__(self, root: Path, scale: float) -> None:
        self.records = int(RECORDS * scale)
        self.flat_records = 2 * self.records
        self.flat = root / "flat"
        properties = {"log.retention.ms": "-1"}
        self.broker = Broker(resolve(), root / "broker", properties=properties, jvm=AS_SHIPPED)
        with self.broker:
            for topic in ("plain", "zstd"):
                create_topic(self.broker.bootstrap, topic, partitions=PARTITIONS)
            self.broker.stop()
        self.log_dir = self.broker.log_dir
        part = self.records // PARTITIONS
        fill_topic(self.log_dir, "plain", part, codec="none")
        fill_topic(self.log_dir, "zstd", part, codec="zstd")
        fill_topic(self.flat, "flat", 2 * part, codec="none")
        self.broker.start()

    def theirs(self, spark: SparkSession, options: Mapping[str, str], *, tuned: bool = True) -> DataFrame:
        settings = {"kafka.bootstrap.servers": self.broker.bootstrap, **(TUNED if tuned else {})}
        return spark.read.format("kafka").options(**settings, **options).load()

    def ours(self, spark: SparkSession, *, schema: str | None = None, **options: str) -> DataFrame:
        reader = spark.read.format("stratalog").options(**options)
        return (reader if schema is None else reader.schema(schema)).load(str(self.log_dir))

    def flat_part(self, spark: SparkSession, share: float) -> DataFrame:
        """The first part of each partition of the large directory."""
        end = int(self.flat_records // PARTITIONS * share)
        ends = json.dumps({"flat": {str(partition): end for partition in range(PARTITIONS)}})
        return spark.read.format("stratalog").option("endingOffsets", ends).load(str(self.flat))


def query(make: Callable[[], DataFrame], rows: int) -> Callable[[], None]:
    """The benchmark's query over a new DataFrame; the number of rows must be right."""

    def run() -> None:
        (row,) = make().selectExpr(*QUERY).collect()
        assert row["rows"] == rows

    return run


def values_only(make: Callable[[], DataFrame], expected: int) -> Callable[[], None]:
    def run() -> None:
        (row,) = make().selectExpr("sum(length(value))").collect()
        assert row[0] == expected

    return run


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def bytes_read(data: Data) -> int:
    """The bytes read to plan and read one hour of the week, as the system counts them."""
    middle = T0 + WEEK_MS // 2
    asked = {"startingTimestamp": str(middle), "endingTimestamp": str(middle + HOUR_MS), "subscribe": "plain"}
    before = _read_so_far()
    tasks = plan_read(ReadOptions.parse({"path": str(data.log_dir), **asked}))
    rows = sum(batch.num_rows for task in tasks for batch in read_task(task, ("value",)))
    assert rows in range(data.records // 170, data.records // 165)
    return _read_so_far() - before


def _read_so_far() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])  # rchar: bytes returned by read calls


def main() -> None:
    rounds = Rounds(__doc__ or "")
    root = Path(tempfile.mkdtemp(prefix="stratalog-spark-read-"))
    data = Data(root, rounds.scale)
    rows, one = data.records, data.records // PARTITIONS
    try:
        with session("spark_read", master="local[2]", settings={"spark.jars": connector_jars()}) as spark:
            plain = {"subscribe": "plain"}
            ours = query(lambda: data.ours(spark, **plain), rows)
            theirs = query(lambda: data.theirs(spark, plain), rows)
            default = query(lambda: data.theirs(spark, plain, tuned=False), rows)
            rounds.compare("read", ours=ours, rival=theirs, floor=2, work="rows", amount=rows)
            rounds.compare("read_default", ours=ours, rival=default, floor=3.2, work="rows", amount=rows)
            rounds.compare(
                "columns",
                ours=values_only(lambda: data.ours(spark, schema="value binary", **plain), rows * 100),
                rival=values_only(lambda: data.theirs(spark, plain), rows * 100),
                floor=3.5,
                work="rows",
                amount=rows,
            )
            first = {"assign": '{"plain": [0]}'}
            rounds.compare(
                "split",
                ours=query(lambda: data.ours(spark, **first), one),
                rival=query(lambda: data.theirs(spark, first), one),
                floor=3.2,
                work="rows",
                amount=one,
            )
            packed = {"subscribe": "zstd"}
            rounds.compare(
                "zstd",
                ours=query(lambda: data.ours(spark, **packed), rows),
                rival=query(lambda: data.theirs(spark, packed), rows),
                floor=2.4,
                work="rows",
                amount=rows,
            )
            quarter = query(lambda: data.flat_part(spark, 0.25), data.flat_records // 4)
            whole = query(lambda: data.flat_part(spark, 1), data.flat_records)
            rounds.compare_times(
                "flat",
                ours=lambda: seconds(whole),
                rival=lambda: 4 * seconds(quarter),
                floor=0.85,
                unit="s",
            )
        size = sum(log.stat().st_size for log in data.log_dir.glob("plain-*/*.log"))
        rounds.state("prune", size / bytes_read(data), 50)
    finally:
        data.broker.close()
        shutil.rmtree(root)
    rounds.end()


if __name__ == "__main__":
    main()
