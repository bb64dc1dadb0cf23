"""What people ask about the records of log directories, answered without a broker.

choosing   topics and partitions by name, and where to start in each
formats    kcat's format strings
internals  records of Kafka's internal topics, decoded
lines      Arrow batches as lines of bytes, by a format or as JSON
printing   `cat`: records as lines, from threads, in order; or as they come

Not here: options and terminals (`cli/`).
"""
