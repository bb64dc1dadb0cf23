"""One partition: append, read, roll, truncate, retain, load.

all_or_none         appends several batches, all or none
api/                the public face: PartitionLog, ManagedLog, views, consuming
append              the first checks of a set of batches, before the lock
appender            `Appender`: checks a set of batches and writes it
broker_end          where a broker takes a log to end, and where it really ends
checkpoint_file     checkpoint files: offsets by partition, leader epochs
cleaning/           compaction and erasing
closer              `Closer`: closes a log, cleanly or after a failure
cutter              `Cutter`: retention and truncation
deletion            renames segments to .deleted, and deletes them later
epochs              leader epochs, in memory and in leader-epoch-checkpoint
flusher             `Flusher`: the recovery point
folder              `LogFolder`: a log's directory, and which names are on the device
guard               `LogGuard`: who may touch a log
kept_marks          updates a log's checkpoints before its files change
loader              opens a log that was shut down cleanly
log                 `Log`: the lock, and the order in which the parts are called
log_end             where a log ends, why it ends there, and how its last writer left it
marks               `LogMarks`: start, end, high watermark, last stable offset
new_records         converts the caller's records and times
offsets             an offset, and its place in a segment
origin              who requests an append
partition_metadata  partition.metadata: the topic id
parts               what the parts of a log share
producers/          producer state: duplicates, fencing, transactions, snapshots
reader              `LogReader`: reads of an open log, without a lock
reading             which bytes of which segment a read returns
ready               sets of one plain batch, already checked: only its offsets and epoch are still to be set
rebuild             decoded records encoded as one v2 batch
recovery/           recovery of one partition
retention           which segments are deleted, by which rule, and why the others stay
roll                when a segment is full
roller              `Roller`: begins segments
scheduler           work for later: flushes, deletions
segments            the segments of a log, by base offset
task_folders        where tasks of a cluster write, and what a killed run left there
timestamps          offsets by time
validation          what a leader checks and sets in a batch

Not here: locks of directories, the clean-shutdown file, more than one log (`directory/`); Spark.
"""

from stratalog.null_handler import add_null_handler

add_null_handler()
