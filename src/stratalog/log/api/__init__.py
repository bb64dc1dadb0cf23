"""The public face of a log: `PartitionLog`, `ManagedLog`, views and consuming.

appended          what `append_arrow` takes from a table
batching          records divided among several batches
consume           records as a consumer gets them: no markers, none twice, only committed ones if wanted
consumer_records  `ConsumerRecord`: rows to Python values in bulk
listing           which files make up a log while another process changes it
log_api           `LogApi`: append, read, follow, for logs of either kind
looking           segments and end of a log that another process writes
managed_log       `ManagedLog`: a log of a `LogManager`
outline           a log in outline, for listings of many logs: names, sizes, first and last batch
partition_log     `PartitionLog`: a log of `open_log`, from open to close
replay            producers of a log that another process writes
seen_epochs       leader epochs for a view, from the batches if their file is garbled
tailing           follows a log: its records as they arrive
view              `LogView`: a log as it was at the last look

Not here: opening a log. `open_log` is in `directory/`, which knows locks and clean-shutdown files.
"""
