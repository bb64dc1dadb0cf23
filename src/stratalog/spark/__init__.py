"""The data pipeline: Kafka log directories on Spark. Importing this imports no pyspark."""

from stratalog.spark.frames import read

__all__ = ["read"]
