"""The public face of a log: `PartitionLog`, views and consuming.

consume        records as a consumer gets them: committed, without markers, nothing twice
listing        which files make up a log while somebody else changes it
looking        segments and end of a log that somebody else writes
partition_log  `PartitionLog`: append, read, follow, close
replay         producers of a log that somebody else writes
seen_epochs    leader epochs for a view, from the batches where their file is garbled
tailing        following a log: its records as they come
view           `LogView`: a log as far as it was written when last looked at

Not here: opening a log. `open_log` is in `directory/`, which knows locks and clean-shutdown files.
"""
