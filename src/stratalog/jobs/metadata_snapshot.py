"""Reads the cluster metadata as a KRaft snapshot followed by the log after it.

From time to time a controller writes a snapshot: the state that results from all records below an offset
(`<offset>-<epoch>.checkpoint`). It may then delete the segments below it. If the log is empty or no longer
begins at 0, the table begins with the records of a snapshot from which the log continues. These records all
get the last offset that the snapshot covers. If several snapshots fit, the oldest one is read: then the table
shows the most history.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from stratalog.clock import system_clock
from stratalog.directory.partitions import FoundPartition
from stratalog.directory.views import open_view
from stratalog.errors import CorruptRecordError
from stratalog.files.entries import EntryKind
from stratalog.files.names import KRaftSnapshotFile, parse_kraft_snapshot_file
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.files.storage import reader_for
from stratalog.jobs.reading.catalog import find_partitions
from stratalog.jobs.reading.ends import ends_of
from stratalog.jobs.reading.omissions import Omission, OmissionKind, OnOmission, ignore_omission
from stratalog.jobs.reading.options import EARLIEST, OnCorruption, ReadBound, ReadOptions
from stratalog.jobs.reading.plan import plan_read
from stratalog.jobs.reading.read import read_task
from stratalog.jobs.reading.split import ReadTask
from stratalog.records.columns import ColumnReader
from stratalog.records.internal_topics import CLUSTER_METADATA
from stratalog.segment.resuming import torn

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTask:
    """A snapshot to read: the state that results from all records below `end_offset`."""

    path: str
    end_offset: int
    include_control: bool
    on_corruption: OnCorruption


TableTask = ReadTask | SnapshotTask


def plan_table(
    options: ReadOptions,
    *,
    disk: DiskReader | None = None,
    cores: int | None = None,
    on_omission: OnOmission = ignore_omission,
) -> list[TableTask]:
    """The tasks that read an internal topic, from its beginning or from where the options say."""
    disk = disk or reader_for(*options.paths)
    tasks: list[TableTask] = []
    for found in find_partitions(disk, options) if _is_from_start(options) else ():
        snapshot, log_end = _snapshot_before(disk, found, options)
        if snapshot is not None:
            tasks.append(
                SnapshotTask(
                    path=join_path(found.directory, snapshot.name),
                    end_offset=snapshot.end_offset,
                    include_control=options.include_control,
                    on_corruption=options.on_corruption,
                )
            )
            behind = {found.topic_partition: min(snapshot.end_offset, log_end)}
            options = replace(options, starting=ReadBound(offsets=behind, option="startingOffsets"))
    return [*tasks, *plan_read(options, disk=disk, cores=cores, on_omission=on_omission)]


def read_table_task(
    task: TableTask,
    columns: Sequence[str],
    *,
    disk: DiskReader | None = None,
    on_omission: OnOmission = ignore_omission,
) -> Iterator[pa.RecordBatch]:
    """The records of a task: of a log, or of a snapshot."""
    if isinstance(task, ReadTask):
        return read_task(task, columns, disk=disk, on_omission=on_omission)
    return _read_snapshot(task, columns, disk or reader_for(task.path), on_omission)


def _is_from_start(options: ReadOptions) -> bool:
    starting = options.starting
    is_mark = starting.timestamp is None and starting.timestamps is None and starting.offsets is None
    return options.table == "cluster_metadata" and is_mark and starting.mark == EARLIEST


def _snapshot_before(
    disk: DiskReader, found: FoundPartition, options: ReadOptions
) -> tuple[KRaftSnapshotFile | None, int]:
    """The snapshot to read before the log, and the end of the log.

    The snapshot is None if the log has records from offset 0 on, or if no snapshot fits.
    """
    files = [entry.name for entry in disk.list_directory(found.directory) if entry.kind is EntryKind.FILE]
    view = open_view(disk, system_clock, found)
    ends = ends_of(view, read_committed=options.read_committed)
    view.close()
    snapshots = [snapshot for name in files if (snapshot := parse_kraft_snapshot_file(name)) is not None]
    usable = [each for each in snapshots if not each.deleted and each.end_offset >= ends.start_offset]
    is_whole = ends.start_offset == 0 < ends.end_offset
    return (None if is_whole else min(usable, default=None)), ends.end_offset


def _read_snapshot(
    task: SnapshotTask, columns: Sequence[str], disk: DiskReader, on_omission: OnOmission
) -> Iterator[pa.RecordBatch]:
    # A snapshot is small enough to load whole: a controller does so too.
    data = disk.read_at(task.path, disk.size(task.path), 0)
    reader = ColumnReader(columns=columns, topic=CLUSTER_METADATA, include_control=task.include_control)
    last_offset = task.end_offset - 1
    try:
        for batch in reader.read(data):
            at = batch.schema.get_field_index("offset")
            offsets = pa.array([last_offset] * batch.num_rows, pa.int64())
            yield batch if at < 0 else batch.set_column(at, batch.schema.field(at), offsets)
        if reader.next_position < len(data):
            raise torn(task.path, reader.next_position, len(data))
    except CorruptRecordError as error:
        if task.on_corruption is OnCorruption.FAIL:
            raise CorruptRecordError(
                f"{error.reason} The file is a snapshot of the cluster metadata at offset {task.end_offset}. "
                "Look with `stratalog dump`. With onCorruption=skip, the rest of this snapshot is left out, "
                "and the log after it is read.",
                position=error.position,
                path=task.path,
            ) from error
        logger.warning("skipped the rest of %s: %s", task.path, error)
        on_omission(
            Omission(
                topic=CLUSTER_METADATA,
                partition=0,
                kind=OmissionKind.DAMAGE,
                first_offset=last_offset,  # all records of a snapshot have this offset
                end_offset=task.end_offset,
                size=len(data) - error.position,
                why=error.reason,
                path=task.path,
                position=error.position,
            )
        )
