"""The recovery of log directories that were not shut down cleanly.

choices             what a caller can choose
directory_recovery  one directory, from its lock to its clean-shutdown file
earlier_cuts        what killed or failed recoveries have cut off
finishing           plans and applies each partition as soon as its scans are done
progress            the stages in progress events
recover             `recover_directories`: locks, surveys, scans, plans, finishes
rehearsal           what a recovery would leave, for the dry run of an operation after it
result              what a recovery returns, as values and as JSON
room                for a dry run: whether there is room for what a plan writes
scanning            runs the scans, on threads or on a cluster
shutdown_epoch      which epoch the clean-shutdown files may carry
tasks               the surveys and scans, as pure functions of tasks
topic_ids           topic ids that are missing, garbled or not what the cluster says

Not here: the recovery of one partition (`log/recovery/`), and the command's report (`operations/recover.py`).
"""
