"""Log directories as Arrow streams, without Spark: `stratalog.scan`.

arrow_predicates   a pyarrow expression as a predicate
asking             the arguments of a scan, checked and parsed
dataset            a scan as a dataset of pyarrow, for DuckDB
in_order           tasks on threads, and their results in order, in bounded memory
latest             the newest record of each key
polars_predicates  a Polars expression as a predicate
predicates         what a query says about topic, partition, offset and timestamp
scan               `Scan`, which other libraries read as an Arrow stream
sources            what a scan reads: the records of topics
values             Arrow values as Python's own, and as JSON
view_names         which topics a query names
words              errors with the names of Python's arguments instead of Spark's options

Not here: how a read is planned and done (`jobs/reading`), which Spark's source uses too.
"""
