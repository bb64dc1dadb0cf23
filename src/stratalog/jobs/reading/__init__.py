"""A read of log directories, with or without Spark.

arguments  paths, topics and times as options
arrow      joins small Arrow batches before they are sent
catalog    which partitions there are, and which a read selects
ends       from where to where a partition is read, and what was aborted
following  a stream: the present offsets, and how far the next trigger goes
narrowing  the part of a partition that a query can match
offsets    the position of a stream, and what counts as data loss
omissions  what a read left out because of damage or data loss
options    the options of a read, by the names of Spark's Kafka source
plan       options in, tasks out
read       a task's records as Arrow batches
seen       what a reader has seen so far, and which batches it decodes
split      what one task reads: offsets, a hint where they are, and the check of that hint

Not here: pyspark; decoding of batches, which is in `records/columns.py`.
"""
