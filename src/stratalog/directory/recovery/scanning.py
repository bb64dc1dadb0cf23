"""Runs the scans of a recovery: on threads of this process, or on another engine, such as a cluster.

Another engine's tasks may run on other machines, which must see the same files. Each task gets the stamp of
its file, taken here, and fails if it sees another file. Otherwise the driver might cut a log because of what
a scan found in another file.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing

from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.finishing import PartitionRecovery
from stratalog.directory.recovery.tasks import StampedScan, scan_stamped
from stratalog.engine.progress import OnProgress
from stratalog.engine.threads import ThreadEngine
from stratalog.errors import DiskError, StratalogError
from stratalog.files.reading import DiskReader
from stratalog.files.stamps import FileStamp
from stratalog.log.recovery.task import ScanResult, ScanTask

Scanned = tuple[PartitionRecovery, ScanTask, ScanResult | StratalogError]


def run_scans(
    partitions: Sequence[PartitionRecovery],
    options: RecoveryChoices,
    *,
    disk: DiskReader,
    on_progress: OnProgress | None = None,
) -> Generator[Scanned, None, None]:
    """Every scan that the surveys request, with its partition, as the scans finish.

    Closing the generator ends the scans.
    Scans of a directory that has failed meanwhile are skipped.
    """
    works = [work for work in partitions for _ in work.survey.scans]
    tasks = [
        StampedScan(task, () if options.engine is None else _stamps(disk, work, task))
        for work in partitions
        for task in work.survey.scans
    ]
    engine = options.engine or ThreadEngine(options.readers, disk=disk)
    outcomes = engine.run(
        scan_stamped,
        tasks,
        sizes=[each.task.size for each in tasks],
        paths=[work.directory.path for work in works],
        on_progress=on_progress,
        is_wanted=lambda number: works[number].directory.error is None,
    )
    with closing(outcomes):
        for outcome in outcomes:
            yield works[outcome.number], outcome.task.task, outcome.value


def _stamps(disk: DiskReader, work: PartitionRecovery, task: ScanTask) -> tuple[FileStamp, ...]:
    paths = [path for path in (task.path, task.index_path, task.time_index_path) if path is not None]
    try:
        return tuple(FileStamp.of(disk, path) for path in paths)
    except DiskError as error:
        work.directory.fail(error)
        return ()
