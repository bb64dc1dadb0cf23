"""Log directories as Arrow streams, without Spark: `stratalog.scan`.

asking    the arguments of a scan, checked and parsed
in_order  tasks on threads, and their results in order, in bounded memory
scan      `Scan`, which other libraries read as an Arrow stream
sources   what a scan reads: the records of topics
words     errors in the words of Python instead of those of Spark's options

Not here: how a read is planned and done (`jobs/reading`), which Spark's source uses too.
"""
