"""Streaming queries: to Parquet for the tests of streams, and two in a process that tests kill.

python -m tests.spark.streaming HOME MASTER WHEN

HOME has the log directory `logs`, which one query copies to Parquet files in `parquet`, another one to the
log directory `sink`. WHEN says how it ends:

    killed    it does not end: somebody kills it
    17        kills itself once the sink has committed batch 17 or a later one, before Spark can note that it
              has, and the other query has committed a batch
    ends      when everything is copied; the rows of the Parquet files are then in `rows.parquet`
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from stratalog.spark.session import session
from stratalog.spark.sink import StratalogStreamWriter
from stratalog.spark.source import StratalogSource

OFFSETS_PER_TRIGGER = 400
TRIES = 10
# Spark hands its environment to the process that commits, which is in another group than the driver.
GROUP_VARIABLE, BATCH_VARIABLE = "STRATALOG_TEST_GROUP", "STRATALOG_TEST_BATCH"
OTHER_VARIABLE = "STRATALOG_TEST_OTHER"  # the folder of the other query's commits


# Errors of Spark itself on a busy machine: it gives a Python process ten seconds to import its modules,
# without a setting for that; and its scheduler serializes a plan while another thread fills a map in it.
SPARKS_OWN = (
    "Python worker failed to connect back",
    "Task serialization failed: java.lang.IllegalStateException",
)


def is_sparks_own(error: Exception) -> bool:
    return any(words in str(error) for words in SPARKS_OWN)


def ended(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """The query that `start` starts, at its end."""
    return come_to(StreamingQuery.awaitTermination, start)


def come_to(what: Callable[[StreamingQuery], object], start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """The query that `start` starts, once it has reached `what`.

    If the machine was too busy for Spark, it is started again with the same checkpoint.
    """
    for _ in range(TRIES):
        query = start()
        try:
            what(query)
        except StreamingQueryException as error:
            if not is_sparks_own(error):
                raise
            continue
        return query
    raise AssertionError(f"Spark itself failed, {TRIES} times over")


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


def to_sink(
    spark: SparkSession,
    form: str,
    log_dir: Path,
    sink: Path,
    checkpoint: Path,
    *,
    available_now: bool,
    **options: str,
) -> StreamingQuery:
    """A query that writes their values to two partitions of the topic `copy`."""
    source = spark.readStream.format("stratalog").options(**{"startingOffsets": "earliest"} | options)
    writer = source.load(str(log_dir)).select("value").writeStream.format(form)
    writer = writer.option("topic", "copy").option("partitions", "2")
    writer = writer.option("checkpointLocation", str(checkpoint))
    return (writer.trigger(availableNow=True) if available_now else writer).start(str(sink))


class KillingWriter(StratalogStreamWriter):
    """Kills the driver between our commit and Spark's."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        has_other = any(Path(os.environ[OTHER_VARIABLE]).glob("[0-9]*"))
        if batchId >= int(os.environ[BATCH_VARIABLE]) and has_other:
            os.killpg(int(os.environ[GROUP_VARIABLE]), signal.SIGKILL)


class KillingSource(StratalogSource):
    @classmethod
    def name(cls) -> str:
        return "killing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return KillingWriter(self.options, schema, overwrite=overwrite)


def main() -> None:
    faulthandler.register(signal.SIGQUIT)  # as Java does: the stacks of all threads, and it runs on
    home, master, when = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    form = "stratalog"
    if when.isdecimal():
        form = KillingSource.name()
        os.environ[GROUP_VARIABLE], os.environ[BATCH_VARIABLE] = str(os.getpgrp()), when
        os.environ[OTHER_VARIABLE] = str(home / "checkpoints" / "parquet" / "commits")
    with session("streams to be killed", master=master) as spark:
        spark.dataSource.register(KillingSource)
        if not copied(spark, home, form, available_now=when == "ends"):
            start_over()
        pq.write_table(spark.read.parquet(str(home / "parquet")).toArrow(), home / "rows.parquet")


def start_over() -> None:
    """Run this program from its beginning, with a new Java.

    Stopping a query while its Python processes are starting may wait forever.
    """
    print("the machine is busy: the queries are started again", flush=True)
    java = SparkContext._gateway.proc  # type: ignore[union-attr]
    java.kill()
    java.wait()
    os.execv(sys.executable, [sys.executable, "-m", "tests.spark.streaming", *sys.argv[1:]])


def copied(spark: SparkSession, home: Path, form: str, *, available_now: bool) -> bool:
    """Run both queries to their end; False if one failed with an error of Spark itself."""
    logs, checkpoints = home / "logs", home / "checkpoints"
    limit = {} if available_now else {"maxOffsetsPerTrigger": str(OFFSETS_PER_TRIGGER)}
    sink = to_sink(
        spark, form, logs, home / "sink", checkpoints / "sink", available_now=available_now, **limit
    )
    while sink.isActive and sink.lastProgress is None:
        time.sleep(0.1)  # on a busy machine, not all Python processes of two queries start in time at once
    parquet = to_parquet(
        spark, logs, home / "parquet", checkpoints / "parquet", available_now=available_now, **limit
    )
    queries = [sink, parquet]
    try:
        while any(query.isActive for query in queries):
            for query in queries:
                query.awaitTermination(0.2)  # type: ignore[arg-type]
        for query in queries:
            query.awaitTermination()
    except StreamingQueryException as error:
        if not is_sparks_own(error):
            raise
        return False
    return True


if __name__ == "__main__":
    main()
