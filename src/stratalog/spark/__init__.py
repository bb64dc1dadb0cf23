"""Kafka log directories on Spark. Importing this package imports no pyspark.

archive       an archive of Spark's parsed classes, so that Spark starts faster
compaction    the parts of a compaction, with Spark's aggregation by key
engine        `SparkEngine`: tasks on executors
export        exports on Spark
frames        `stratalog.spark.read`
java          finds a Java for an embedded Spark
latest        `stratalog.spark.latest`
listening     receives on the driver what workers leave out
on_hosts      runs a function once on each host
plain_errors  Spark's errors in words
registering   `stratalog.spark.register`
session       a SparkSession with the settings that logs need
sink          DataFrames into segments
source        the data source
stream        the data source as a stream
tables        internal topics as DataFrames
telling       reports to the driver what a worker leaves out
views         a view for each topic, for `stratalog sql`
workers       prepares a worker: checks our version, finds a folder for compiled kernels, ends it quietly

Not here: how a read or a write is planned and done (`jobs/`), which is tested without a JVM.
"""

from stratalog.null_handler import add_null_handler
from stratalog.spark.engine import SparkEngine
from stratalog.spark.frames import read
from stratalog.spark.latest import latest
from stratalog.spark.registering import register

__all__ = ["SparkEngine", "latest", "read", "register"]

add_null_handler()
