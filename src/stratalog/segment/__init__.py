"""One base offset: a .log file and its .index, .timeindex and .txnindex; and the scan of one segment.

fetched          where in a log what was asked for is
headers          the batches of a .log, in order, or the one that is wanted
identities       what tells files from others that get their names
index_cache      which indexes are in memory
index_file       what the indexes share
indexing         adds the entries of a set to the indexes
offset_index     .index
producers        producers and transactions, as a scan collects them
resuming         where a segment goes on after a batch that cannot be read
sanity           whether the indexes can be those of their log
scan             `scan_segment`: everything about a segment, from one reading
search           the first record at or after a time
segment          `LogSegment`: writes, syncs and renames a segment; has a reader
segment_reader   `SegmentReader`: bytes, ranges, batches, offsets by time; changes no file
time_index       .timeindex
txn_index        .txnindex

Not here: more than one segment, marks, producer state (`log/`).
"""
