"""One segment: a .log file with its .index, .timeindex and .txnindex, all named by one base offset; its scan.

fetched          the position of an offset, and of the bytes of a fetch, in a segment's log
headers          the batches of a .log, in order, or a search for one
identities       distinguishes files from later files with the same names
index_cache      which indexes are in memory
index_file       what the indexes share
indexing         adds the entries of a set to the indexes
offset_index     .index
producers        producers and transactions, as a scan collects them
proven_search    as `search`, but also reports damage that may hide an earlier record
resuming         where a segment continues after a batch that cannot be read
sanity           whether the indexes match their log
scan             `scan_segment`: everything about a segment, from one reading
search           the first record at or after a time
segment          `LogSegment`: writes, syncs and renames a segment; has a reader
segment_reader   `SegmentReader`: bytes, ranges, batches, offsets by time; changes no file
time_index       .timeindex
txn_index        .txnindex

Not here: more than one segment, marks, producer state (`log/`).
"""

from stratalog.null_handler import add_null_handler

add_null_handler()
