"""Recovery of one partition: survey, scan, plan, and only then change.

applied               what the steps have done so far, for a report after a step has failed
facts                 the values that a plan and its report are made of
findings              findings of the sequence, in words
index_checks          whether the indexes of a segment that is not scanned match its log
index_claims          whether indexes name records past the end of their log
inventory             the files as they will be when every interrupted swap is finished
manifest              the lines of a quarantine's manifest
manifest_file         the file that has the lines of the manifest
plan                  the steps that lead to the state a clean shutdown leaves
quarantine            keeps what recovery cuts off
ranges                ranges of a file: joined, subtracted
result_scans          gives the sequence the results of the scans
run                   the whole recovery of one partition; checks whether a torn tail hides batches
salvage               decides which batches after damage may stay, and rewrites the segment
salvage_search        the search for batches after damage
salvage_transactions  transactions that were open at a gap
salvaging             reads damaged segments again, to salvage batches
sequence              the order in which a broker recovers segments
small_files           which indexes, snapshots and epochs are written, and in which order
stale_tail            stale batches after the log's last batch, which must not stay
steps                 the steps of a plan as values, and the code that does them
stitch                combines scans into producer state and aborted transactions
survey                which segments must be scanned, and why
task                  one scan, as a value that travels to a thread or a Spark task
zero_runs             a range as runs of zeros and of other bytes

Not here: several partitions, checkpoints, topic ids, the clean-shutdown file (`directory/recovery/`).
"""

from typing import TYPE_CHECKING

from stratalog.lazy_names import lazy_names

if TYPE_CHECKING:
    from stratalog.log.recovery.plan import RecoveryPlan, plan_recovery
    from stratalog.log.recovery.quarantine import Quarantine
    from stratalog.log.recovery.run import apply_plan, recover_partition, sync_accepted
    from stratalog.log.recovery.survey import Survey, SurveyOptions, survey_partition
    from stratalog.log.recovery.task import ScanResult, ScanTask, run_scan

__all__ = [
    "Quarantine",
    "RecoveryPlan",
    "ScanResult",
    "ScanTask",
    "Survey",
    "SurveyOptions",
    "apply_plan",
    "plan_recovery",
    "recover_partition",
    "run_scan",
    "survey_partition",
    "sync_accepted",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Quarantine": "stratalog.log.recovery.quarantine",
        "RecoveryPlan": "stratalog.log.recovery.plan",
        "ScanResult": "stratalog.log.recovery.task",
        "ScanTask": "stratalog.log.recovery.task",
        "Survey": "stratalog.log.recovery.survey",
        "SurveyOptions": "stratalog.log.recovery.survey",
        "apply_plan": "stratalog.log.recovery.run",
        "plan_recovery": "stratalog.log.recovery.plan",
        "recover_partition": "stratalog.log.recovery.run",
        "run_scan": "stratalog.log.recovery.task",
        "survey_partition": "stratalog.log.recovery.survey",
        "sync_accepted": "stratalog.log.recovery.run",
    },
)
