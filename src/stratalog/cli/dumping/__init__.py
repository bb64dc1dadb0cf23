"""What `stratalog dump` prints of each kind of file, line for line as Kafka's dump tool, or as JSON.

chunks        the batches of a .log or .checkpoint file, read ahead
complaints    what is wrong with the files, printed after the last file as Kafka's tool does
contents      the text of control records and decoded records, which the kernels do not write
files         dumps file after file, each by its kind
indexes       .index, .timeindex and .txnindex, compared with the log
json_batches  batches and records as JSON
log_lookup    looks up single batches of a log, to compare an index with
logs          .log and .checkpoint files
names         the files that a dump can read, and finding them in a directory
options       the options of a dump, by Kafka's names
printer       lines to stdout, complaints to stderr
remote_log    records of `__remote_log_metadata`
runs          the records of a chunk, without the batches that cannot be read
small_files   checkpoints and other text files
state         .snapshot files
text_batches  batches and records as lines of Kafka's tool

Not here: code that recovery or another command also needs to read files. See `segment/` and `records/`.
"""
