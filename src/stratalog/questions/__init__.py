"""Answers questions about the records of log directories, without a broker.

assignments   which member has which partitions, in the newer protocols
choosing      topics and partitions by name, and where to start in each
formats       kcat's format strings
groups        consumer groups, what they committed, their lag
internals     records of Kafka's internal topics, decoded
lines         Arrow batches as lines of bytes, by a format or as JSON
offsets       the offset for a time in each partition
printing      `cat`: records as lines, in order; with --follow also new ones as they arrive
transactions  open and hanging transactions, transactional ids, producers

Not here: options and terminals (`cli/`).
"""
