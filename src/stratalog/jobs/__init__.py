"""Moves data in and out of many logs: a job has a plan, pure tasks, and a step that uses their results.

decoding/          keys and values decoded, by schemas that are found for them
export             log directories to Parquet, each record once
exporting/         the parts of an export
metadata_snapshot  reads the cluster's metadata: a KRaft snapshot, then the log after it
reading/           a read: options, plan, tasks
tables             internal topics as rows
writing/           a write: stage in tasks, commit on the driver

Not here: pyspark, and work that changes a directory for its own sake (`operations/`).
"""

from stratalog.null_handler import add_null_handler

add_null_handler()
