"""Erasing records, wherever a node keeps them.

erase_checks     finds records that an erasure cannot reach
erase_directory  one log directory: search everything, then change it
erase_report     what an erasure did, or would do
erase_search     searches log files as tasks of an engine
erasure          all directories of a node

Not here: the rewriting of one file (`log/cleaning/`).
"""
