"""The log directories of a node: what is in them, whose they are, and the one way to change them.

checkpoint_table   the offset checkpoints of a directory: names, what each says, when it is written
checkpoints        reads and writes these files
clean_shutdown     the clean-shutdown file: its content, and reading it
clean_state        writes and deletes the clean-shutdown file; the note that replaces it during a change
cleaner_refusals   cleaner checkpoints because of which a broker compacts no log
cluster_metadata   topic ids, replicas, settings and broker epochs from `__cluster_metadata`
directory_id_refusals  directories that the cluster knows by another directory.id
file_refusals      files in the place of partitions' folders
formatting/        turns log directories into those of a stand-alone broker
gone_logs          logs whose folder is gone, though a checkpoint has a line for them
home               whether a partition is in a log directory or a lone log (`lone_files.py`); opens lone logs
kind               decides whether a path is a log directory; gives reasons and the likely mistake
known_topics       the settings that retention and compaction use, and whether they are known at all
layout             what is in a log directory, and how a broker treats each entry
locking            takes the locks of log directories; the only code that does
log_directory      one directory of a session: lock, clean-shutdown file, checkpoints, failure
log_end_refusals   logs that a broker would delete, overwrite or not read to their end
lone_files         what `open_log` leaves beside a log, and how a log directory takes it over
lone_logs          logs of a directory that are, or were, open as lone logs
meta_properties    meta.properties: which node of which cluster
metadata_refusals  why a broker would not start with its cluster's metadata
node               finds the node that owns these directories; all files must agree on it
open_log           `open_log`, the public way to one log
owner_refusals     files that the broker's user may not read or write
owners             who owns the files, and whether rewritten files can keep their owner
partitions         lists partitions, for code that only reads
pending_move       finishes the swap of a log with its copy in another directory
pending_write      finishes a write that was committed but not finished
recovery/          the recovery of directories that were not shut down cleanly
refusal            one reason for which a broker would not start, and what all of them mean
repairing          repairs partitions in a directory that was shut down cleanly
room_refusals      log directories on a disk that is too full for a broker's start
session            opens directories for changes: locks, recovery, clean-shutdown files
short_logs         logs that end before what a clean shutdown has stored
startup_refusals   reasons for which a broker would refuse to start, with remedies
topic_configs      a topic's own settings, which override its broker's
topic_id_refusals  folders with another topic's id, because of which a broker serves no partition
views              opens a view of a partition
work_dir           for a full disk: writes small files elsewhere first
write_journal      the journal of a write: what was decided, and what earlier writes did
written_topics     the numbers of partitions of topics that no cluster knows yet

Not here: the work of a single log (`log/`), and the operations of users (`operations/`).
"""

from stratalog.null_handler import add_null_handler

add_null_handler()
