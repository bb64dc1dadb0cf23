"""Deletes old segments on request, by the limits of each topic."""

from __future__ import annotations

from dataclasses import replace

from stratalog.log.log import Log
from stratalog.log.retention import find_timestamps
from stratalog.operations.looking import Partition
from stratalog.operations.read_progress import CountRead
from stratalog.operations.work_report import PartitionWork


class Retention:
    """Deletes segments below the log start offset, and past the limits of topics with the policy `delete`."""

    stage = "deleting from"

    def plan(self, partition: Partition, now: int, on_read: CountRead) -> PartitionWork:  # noqa: ARG002
        gone = tuple(found for found in partition.decisions(now) if found.is_deleted)
        return PartitionWork(name=partition.name, deleted=gone)

    def do(
        self,
        log: Log,
        planned: PartitionWork,
        cleaner_checkpoint: int | None,  # noqa: ARG002
        now: int,  # noqa: ARG002
        on_read: CountRead,  # noqa: ARG002
    ) -> PartitionWork:
        find_timestamps(tuple(log.segments.readers))  # as the plan has done
        return replace(planned, deleted=log.delete_old_segments())
