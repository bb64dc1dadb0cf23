"""A write into log directories, with or without Spark.

commit   the driver: moves all staged segments into their logs, or none
options  the options of a write
patch    sets base offsets and the leader epoch in a staged segment
rows     rows become records of partitions
stage    tasks write whole segments, with offsets from 0
target   which topics and partitions can be written to, their ids and settings

Not here: the journal and its completion (`directory/write_journal.py`, `directory/pending_write.py`), which
every session must know.
"""
