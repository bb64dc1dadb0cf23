"""A read of log directories, with or without Spark.

arrow      small Arrow batches put together before they travel
catalog    which partitions are there, and which a read asks for
ends       from where to where a partition is read, and what was aborted
following  a stream: what is there now, and how far the next trigger goes
offsets    where a stream stands, and what counts as data loss
omissions  what a read left out because of damage or data loss
options    what a read is asked for, by the names of Spark's Kafka source
plan       options in, tasks out
read       a task's records as Arrow batches
seen       what a reader has seen so far, and which batches it decodes
split      what one task reads: offsets, a hint where they are, and the proof that it still holds

Not here: pyspark; decoding of batches, which is in `records/columns.py`.
"""
