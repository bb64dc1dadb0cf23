"""gzip, snappy, lz4 and zstd, read by the rules of Kafka's own readers.

failures  the sentences for streams that cannot be read
gzip      RFC 1952 members, as Java reads them
lz4       one LZ4 frame of independent blocks
snappy    a xerial stream, or one raw block
zstd      frames one after another

Not here: which codec a batch has (`records/compression.py`).
"""
