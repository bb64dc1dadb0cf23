"""Recovery of one partition: what is on disk is surveyed, scanned, planned, and only then changed.

facts      the values that a plan and its report are made of
inventory  a listing becomes the directory that a broker would work on; nothing is renamed yet
survey     which segments must be scanned, and why
task       one scan, as a value that travels to a thread or a Spark task
stale_tail what must not stay behind a log's last batch, though each batch of it is good
sequence   the order in which a broker recovers segments, gone through with scans
stitch     scans, in that order, become producer state, aborted transactions and epochs
plan       the steps that lead to the state a clean shutdown leaves
steps      doing them, each only where its precondition holds
run        all of it for one partition, in this thread
"""

from stratalog.log.recovery.plan import RecoveryPlan, plan_recovery
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.log.recovery.run import apply_plan, recover_partition, sync_accepted
from stratalog.log.recovery.survey import RecoveryOptions, Survey, survey_partition
from stratalog.log.recovery.task import ScanResult, ScanTask, run_scan

__all__ = [
    "Quarantine",
    "RecoveryOptions",
    "RecoveryPlan",
    "ScanResult",
    "ScanTask",
    "Survey",
    "apply_plan",
    "plan_recovery",
    "recover_partition",
    "run_scan",
    "survey_partition",
    "sync_accepted",
]
