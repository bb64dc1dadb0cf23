"""Erasing records, wherever a node keeps them.

erase_checks     where records may be that an erasing does not reach
erase_directory  one log directory: search everything, then change it
erase_report     what an erasure did, or would do
erasure          all directories of a node

Not here: the rewriting of one file (`log/cleaning/`).
"""
