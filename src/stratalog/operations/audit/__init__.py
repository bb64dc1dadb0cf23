"""The audit of log directories: checks every byte of every file and changes nothing; a broker may run.

ahead              batches whose offsets are far ahead of those after them
aside              a call beside other work
audit              `AuditRequest`: the request, and the order of the work
audit_report       `AuditReport`: tables, JSON, Arrow
audited_directory  findings in a log directory itself
baseline           what an earlier audit has read, so that it need not be read again
by_host            each host audits its own directories; one report
coordinated        open transactions that a coordinator knows
deep               the records inside batches
finding            `AuditFinding`: one row
gone               partitions whose folder is gone or has no segment left
index_entries      compares the offset and time index with the batches, entry by entry
kinds              every kind of finding: severity, consequence, remedy
page/              the report as one page of HTML
partition          compares the segments of a partition with each other and with its small files
partition_state    a partition during its audit, and sums over many
partition_task     a task: the listing and the small files of a partition
rows               compares the headers of a segment's batches with each other
segment_indexes    reads the indexes of a segment
segment_task       a task: reads a segment once
spots              collects the places in one file where something was found
usual_parts        the parts of a segment in which nothing is wrong, in one pass

Not here: repairing. A finding names the command that does it.
"""
