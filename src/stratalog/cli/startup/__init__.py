"""The parts of `stratalog bench startup`: directories to load, the strategies, the rival, and what is shown.

article       what was measured in the article that named the strategies
chart         a bar chart as SVG
counting      a disk that counts reads, writes and syncs
directory     a log directory that is made clean or unclean again for each round
kafka_load    one partition, loaded as Kafka 2.1 did
mapped_index  an index file in memory, as Kafka maps it
measuring     the cells of the table, each measured in several rounds
rival         Kafka's own loading, timed by its log lines
shown         the tables, the JSON, the sentences and the picture
strategies    five ways to load a log directory: Kafka's, an article's, and ours

Not here: anything that another command uses.
"""
