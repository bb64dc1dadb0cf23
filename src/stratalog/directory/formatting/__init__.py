"""Turns log directories into those of a stand-alone broker: makes a cluster's metadata from what is on disk.

choices   what the caller decides, and the defaults for the rest
format    `format_directories`: locks, looks, plans, writes
identity  decides the ids of cluster, directories and topics
look      the topics and partitions that are in the directories
note      keeps the ids of a format until it is complete
records   the metadata as records, and the files that hold it
releases  the features of a release of Kafka
result    what a format has done, or would do

Not here: reading a cluster's metadata (`cluster_metadata.py`), the words of the report (`operations/`).
"""
