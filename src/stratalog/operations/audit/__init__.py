"""The audit of log directories: every byte of every file checked, nothing changed, beside a broker too.

audit              `AuditRequest`: the request, and the order of the work
audit_report       `AuditReport`: tables, JSON, Arrow
audited_directory  what is found in a log directory itself
baseline           what an earlier audit has read
coordinated        open transactions that a coordinator knows
deep               the records inside batches
finding            `AuditFinding`: one row
index_entries      the offset and time index against the batches, entry by entry
kinds              every kind of finding: severity, consequence, remedy
partition          the segments of a partition against each other and its small files
partition_task     a task: the listing and the small files of a partition
rows               the headers of a segment's batches against each other
segment_task       a task: one reading of a segment
spots              collects the places of one file

Not here: repairing. A finding names the command that does it.
"""
