"""One base offset: a .log file and its .index, .timeindex and .txnindex; and the scan of one segment.

headers          the batches of a .log, in order, or the one that is wanted
index_cache      which indexes are in memory
index_file       what the indexes share
indexing         adds the entries of a set to the indexes
offset_index     .index
producers        producers and transactions, as a scan collects them
resuming         where a segment goes on after a batch that cannot be read
scan             `scan_segment`: everything about a segment, from one reading
search           the first record at or after a time
segment          `LogSegment`
segment_files    the files of a segment, and reading while they are renamed
segment_reading  ranges for a fetch, batches, offsets by time
time_index       .timeindex
txn_index        .txnindex

Not here: more than one segment, marks, producer state (`log/`).
"""
