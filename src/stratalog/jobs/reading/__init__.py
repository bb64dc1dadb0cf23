"""A read of log directories, with or without Spark.

arguments  paths, topics and times as options
arrow      joins small Arrow batches before they are sent
catalog    which partitions there are, and which a read selects
ends       from which offset to which a partition is read, and what was aborted
following  a stream: follows the partitions, and decides how far the next trigger goes
narrowing  the part of a partition that a query can match
offsets    the position of a stream, and what counts as data loss
omissions  what a read left out because of damage or data loss
options    the options of a read, by the names of Spark's Kafka source
plan       options in, tasks out
read       a task's records as Arrow batches
seen       which batches a reader has seen so far, and which of the next ones it decodes
split      what one task reads: offsets, a hint where they are, and the check of that hint

Not here: pyspark; decoding of batches, which is in `records/columns.py`.
"""
