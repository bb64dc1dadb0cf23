"""Shows the state that a recovery would leave: its plan is applied to a disk that only records the steps.

It serves dry runs of operations that follow a recovery. If a plan rewrites a segment, the new bytes do not
exist in a dry run. Then `rewritten` has the segment, and the result of later work on its partition is not
known.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory

from stratalog.directory.recovery.result import RecoveryReport
from stratalog.files.names import PARTITION_METADATA, TopicPartition
from stratalog.files.paths import join_path
from stratalog.files.planned import PlannedDisk
from stratalog.log.partition_metadata import format_partition_metadata
from stratalog.log.recovery.plan import RecoveryPlan
from stratalog.log.recovery.steps import CopyRanges, apply_steps


@dataclass(slots=True)
class RecoveryRehearsal:
    """The disk after the plans that were added; `rewritten` are segments, by their partition's path."""

    disk: PlannedDisk
    rewritten: dict[str, str] = field(default_factory=dict)

    def add(self, plan: RecoveryPlan) -> None:
        """Record the steps of a plan, unless it rewrites a segment."""
        copied = [step.file.name for step in plan.steps if isinstance(step, CopyRanges)]
        if copied:
            self.rewritten[plan.directory] = copied[0]
        else:
            apply_steps(self.disk, plan.directory, plan.steps, None)

    def add_topic_ids(self, report: RecoveryReport) -> None:
        """Record the topic ids that the recovery would write."""
        for directory in report.directories:
            for name, topic_id in directory.topic_ids.items():
                path = join_path(directory.directory, name, PARTITION_METADATA)
                self.disk.replace(path, format_partition_metadata(topic_id))


def log_starts(report: RecoveryReport) -> dict[str, dict[TopicPartition, int]]:
    """Where the logs start after the recovery, by directory."""
    return {
        directory.directory: {
            found.topic_partition: found.log_start_offset
            for found in directory.partitions
            if found.log_start_offset is not None
        }
        for directory in report.directories
    }


@contextmanager
def rehearsing_recovery() -> Iterator[RecoveryRehearsal]:
    """A rehearsal; its temporary files are removed at the end."""
    with TemporaryDirectory(prefix="stratalog-") as spool:
        disk = PlannedDisk(spool)
        try:
            yield RecoveryRehearsal(disk)
        finally:
            disk.release(spool)
