"""One partition: append, read, roll, truncate, retain, load.

api/                the public face: PartitionLog, views, consuming
append              the first look at a set of batches, before the lock
checkpoint_file     checkpoint files: offsets by partition, leader epochs
cleaning/           compaction and erasing
deletion            renames segments to .deleted, and deletes them later
epochs              leader epochs, in memory and in leader-epoch-checkpoint
flushing            when data is on the device, and how a log is closed
kept_marks          lowers a log's checkpoints before its files change
loader              opens a log that was shut down cleanly
log                 `Log`: the lock, and the order in which the parts are asked
log_end             where a log ends, why there, and how its last writer left it
marks               end, high watermark, last stable offset
new_records         what a caller hands in to be appended
offsets             an offset with the place where it is
origin              who asks for an append
partition_metadata  partition.metadata: the topic id
producers/          producer state: duplicates, fencing, transactions, snapshots
reading             which bytes of which segment a read returns
rebuild             decoded records encoded as one v2 batch
recovery/           recovery of one partition
retention           which segments go, by which rule, and why the others stay
roll                when a segment is full
scheduler           work for later: flushes, deletions
segments            the segments of a log, by base offset
state               what a log has, and the rules for changing it
timestamps          offsets by time
validation          what a leader checks and sets in a batch
writing             appending and rolling

Not here: locks of directories, the clean-shutdown file, more than one log (`directory/`); Spark.
"""
