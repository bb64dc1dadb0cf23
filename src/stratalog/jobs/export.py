"""Exports log directories to Parquet: each record exactly once, in files by topic and day.

A run is planned once, and the plan is stored (`exporting/folder.py`): which task exports which offsets of
which partition. Running the export again finishes a run that was stopped, then exports newer records. The
rows never leave the task that read them, so on Spark no row travels to the driver.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import Any

from stratalog.clock import Clock, system_clock
from stratalog.directory.locking import Locks
from stratalog.directory.partitions import FoundPartition
from stratalog.engine.engine import Engine, results_in_order
from stratalog.engine.progress import OnProgress
from stratalog.errors import UsageError
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from stratalog.files.names import (
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
)
from stratalog.files.paths import join_path, parent_path
from stratalog.files.reading import DiskReader
from stratalog.files.storage import local_path
from stratalog.jobs.decoding.asked import DECODED
from stratalog.jobs.exporting.folder import (
    STATE,
    ExportedRange,
    ExportedRanges,
    ExportFolder,
    Ledger,
    TaskNote,
    joined,
    missing,
)
from stratalog.jobs.exporting.parquet import ParquetFiles
from stratalog.jobs.exporting.rows import RowSettings, by_day, with_new_schemas
from stratalog.jobs.reading.catalog import find_partitions
from stratalog.jobs.reading.ends import check_complete, ends_of, range_of
from stratalog.jobs.reading.omissions import Omission, OnOmission, joined_up
from stratalog.jobs.reading.options import OnCorruption, ReadOptions
from stratalog.jobs.reading.plan import Piece, looking_at, plan_range, tasks_of
from stratalog.jobs.reading.split import Hint, ReadTask, Split, topic_id_of
from stratalog.log.api.view import LogView

CODECS = ("snappy", "zstd", "gzip", "lz4", "none")


@dataclass(frozen=True, kw_only=True)
class ExportTask:
    """What one task exports, and to which folder."""

    folder: str
    run: int
    number: int
    read: ReadTask
    rows: RowSettings
    codec: str

    @property
    def size(self) -> int:
        """How many bytes of logs it reads."""
        return sum(split.size for split in self.read.splits)


@dataclass(frozen=True, kw_only=True)
class ExportReport:
    """What an export did."""

    rows: int = 0
    files: int = 0
    size: int = 0
    undecoded: int = 0
    partitions: int = 0
    omissions: tuple[Omission, ...] = ()  # what was left out, as the options allowed
    taken_up: bool = False  # an earlier run that had been stopped was finished first

    def __add__(self, other: ExportReport) -> ExportReport:
        return ExportReport(
            rows=self.rows + other.rows,
            files=self.files + other.files,
            size=self.size + other.size,
            undecoded=self.undecoded + other.undecoded,
            partitions=max(self.partitions, other.partitions),
            omissions=tuple(joined_up([*self.omissions, *other.omissions])),
            taken_up=self.taken_up or other.taken_up,
        )


RunTasks = Callable[[Sequence[ExportTask]], Sequence[TaskNote]]
"""Runs all tasks of a run, except those known to be done; returns notes of what all of them wrote."""


def export_logs(
    engine: Engine,
    options: ReadOptions,
    target: str,
    rows: RowSettings,
    *,
    codec: str = "snappy",
    disk: Disk | None = None,
    clock: Clock = system_clock,
    make_lock: Callable[[str], DirectoryLock] = DirectoryLock,
    cores: int | None = None,
    on_progress: OnProgress | None = None,
) -> ExportReport:
    """Export the records that the options select and the folder does not have yet.

    UsageError if the folder contains something else, or rows of other columns or settings; LogDirLockedError
    if another export into it is running.
    """
    if codec not in CODECS:
        raise UsageError(f"{codec} is not a supported Parquet codec: use one of {', '.join(CODECS)}.")

    # Without a given disk, each task opens its own, on the machine where it runs.
    function = export_task if disk is None else partial(export_task, disk=disk)

    def run(tasks: Sequence[ExportTask]) -> Sequence[TaskNote]:
        found = notes_of(tasks, disk)
        left = [task for task, note in zip(tasks, found, strict=True) if note is None]
        sizes = [task.size for task in left]
        results_in_order(engine.run(function, left, sizes=sizes, on_progress=on_progress))
        notes = [note for note in notes_of(tasks, disk) if note is not None]
        assert len(notes) == len(tasks), "a task ended without writing its note"
        return notes

    settings = {**rows.to_json(), "format": "parquet"}
    return run_export(
        run,
        options,
        target,
        rows,
        settings=settings,
        codec=codec,
        disk=disk,
        clock=clock,
        make_lock=make_lock,
        cores=cores,
    )


def run_export(
    run_tasks: RunTasks,
    options: ReadOptions,
    target: str,
    rows: RowSettings,
    *,
    settings: Mapping[str, Any],
    codec: str = "snappy",
    disk: Disk | None = None,
    clock: Clock = system_clock,
    make_lock: Callable[[str], DirectoryLock] = DirectoryLock,
    cores: int | None = None,
) -> ExportReport:
    """The same as `export_logs`, with a given function that runs the tasks."""
    disk = disk or Disk()
    folder = ExportFolder(disk, local_path(target))
    find_partitions(disk, options)  # reports a wrong path before the folder is created
    _check_elsewhere(disk, folder.path)
    folder.create()
    with Locks(folder.state_path, make_lock):
        export = _Export(
            run_tasks=run_tasks,
            options=options,
            folder=folder,
            rows=rows,
            settings=settings,
            codec=codec,
            disk=disk,
            clock=clock,
            cores=cores,
        )
        return export.finish_begun() + export.take_new()


def export_task(reader: DiskReader, task: ExportTask, disk: Disk | None = None) -> None:
    """Write the files of a task, then its note. Does nothing if the note already exists."""
    if disk is None:
        disk = Disk()
    else:
        reader = disk
    folder = ExportFolder(disk, task.folder)
    if folder.note(task.run, task.number) is not None:
        return
    # Each attempt has its own folder: an attempt that is believed dead may still be writing.
    attempt = join_path(STATE, f"run-{task.run:06d}", "staged", f"{task.number:05d}-{uuid.uuid4().hex}")
    staged = join_path(task.folder, attempt)
    disk.make_directory(staged)
    disk.sync_directory(parent_path(staged))
    name = f"run-{task.run:06d}-{task.number:05d}"
    settings = task.rows
    undecoded = 0
    omissions: list[Omission] = []
    with ParquetFiles(disk, task.folder, attempt, name, schema=settings.schema, codec=task.codec) as files:
        for topic, day, rows in by_day(task.read, settings, reader, omissions.append):
            undecoded += settings.undecoded_count(rows)
            files.write(join_path(f"topic={topic}", f"date={day}"), rows)
    count = sum(file.rows for file in files.finished)
    note = TaskNote(
        files=tuple(files.finished),
        rows=count,
        undecoded=undecoded,
        omissions=tuple(joined_up(omissions)),
    )
    folder.write_note(task.run, task.number, note)


def notes_of(tasks: Sequence[ExportTask], disk: Disk | None = None) -> list[TaskNote | None]:
    """The note of each task; None for a task that is not done."""
    disk = disk or Disk()
    return [ExportFolder(disk, task.folder).note(task.run, task.number) for task in tasks]


@dataclass(kw_only=True)
class _Export:
    """One call of the export, which holds the folder's lock."""

    run_tasks: RunTasks
    options: ReadOptions
    folder: ExportFolder
    rows: RowSettings
    settings: Mapping[str, Any]
    codec: str
    disk: Disk
    clock: Clock
    cores: int | None

    def __post_init__(self) -> None:
        self._ledger = self.folder.ledger() or Ledger(settings=self.settings, ranges={}, topic_ids={})
        if self._ledger.settings != self.settings:
            differences = _differences(self._ledger.settings, self.settings)
            raise UsageError(
                f"{self.folder.path} was exported with other settings ({differences}): use the same settings "
                f"again, or export to another folder.{_of_readers(self._ledger.settings, self.settings)}"
            )

    def finish_begun(self) -> ExportReport:
        """Finish the run that was stopped, if there is one."""
        run = self._ledger.run + 1
        if self._ledger.run:
            self.folder.forget(self._ledger.run)
        if (found := self.folder.roll_forward(run)) is not None:
            self._ledger = self.folder.ledger() or self._ledger
            omissions, undecoded = found
            return ExportReport(taken_up=True, omissions=omissions, undecoded=undecoded)
        plan = self.folder.plan(run)
        if plan is None:
            return ExportReport()
        if plan["ledger"]["settings"] != self.settings:
            # Nothing of that run is exported yet, so it is planned again with the present settings.
            return ExportReport()
        # The options about damage come from this call: damage may be why the run was stopped.
        reads = [
            replace(
                _task_from_json(each),
                on_corruption=self.options.on_corruption,
                fail_on_data_loss=self.options.fail_on_data_loss,
            )
            for each in plan["tasks"]
        ]
        if self._have_moved(reads):
            return ExportReport()  # likewise: these records are planned again, in their new directory
        done = self._run(run, reads, Ledger.from_json(plan["ledger"]))
        return replace(done, taken_up=True)

    def _have_moved(self, reads: Sequence[ReadTask]) -> bool:
        """Whether a partition of these tasks has moved to another directory of this export."""
        found = {each.topic_partition: each.directory for each in find_partitions(self.disk, self.options)}
        planned = {split.topic_partition: split.directory for read in reads for split in read.splits}
        return any(
            found.get(key, directory) != directory and not self.disk.exists(directory)
            for key, directory in planned.items()
        )

    def take_new(self) -> ExportReport:
        """Plan and export the selected records that are not exported yet."""
        omissions: list[Omission] = []
        reads, ranges, topic_ids = self._plan(omissions.append)
        planned = ExportReport(partitions=len(ranges), omissions=tuple(omissions))
        if not reads:
            return planned
        every = {key: joined([*self._ledger.ranges.get(key, ()), *spans]) for key, spans in ranges.items()}
        run = self._ledger.run + 1
        after = Ledger(
            settings=self.settings,
            run=run,
            ranges={**self._ledger.ranges, **every},
            topic_ids={**self._ledger.topic_ids, **topic_ids},
        )
        plan = {"tasks": [_task_to_json(read) for read in reads], "ledger": after.to_json()}
        self.folder.begin(run, plan)
        return planned + self._run(run, reads, after)

    def _run(self, run: int, reads: Sequence[ReadTask], after: Ledger) -> ExportReport:
        omissions: list[Omission] = []
        rows = with_new_schemas(self.rows, self.options, self.disk, omissions.append)
        tasks = [
            ExportTask(
                folder=self.folder.path,
                run=run,
                number=number,
                read=read,
                rows=rows,
                codec=self.codec,
            )
            for number, read in enumerate(reads)
        ]
        notes = self.run_tasks(tasks)
        self.folder.commit(run, notes, after)
        self._ledger = after
        files = [file for note in notes for file in note.files]
        return ExportReport(
            rows=sum(note.rows for note in notes),
            files=len(files),
            size=sum(file.size for file in files),
            undecoded=sum(note.undecoded for note in notes),
            omissions=(*omissions, *(each for note in notes for each in note.omissions)),
        )

    def _plan(self, on_omission: OnOmission) -> tuple[list[ReadTask], ExportedRanges, dict[str, str]]:
        """(the tasks, the offsets of each partition that they export, the ids of the topics)."""
        found = find_partitions(self.disk, self.options)
        for bound in (self.options.starting, self.options.ending):
            check_complete(bound, [each.topic_partition for each in found])
        pieces: list[Piece] = []
        ranges: ExportedRanges = {}
        ids: dict[str, str] = {}
        for each in found:
            ids |= self._checked_id(each)
            plan = partial(self._plan_partition, on_omission)
            spans, own = looking_at(self.disk, self.clock, each, plan)
            ranges[each.topic_partition] = spans
            pieces += own
        return tasks_of(pieces, self.options, cores=self.cores), ranges, ids

    def _plan_partition(
        self, on_omission: OnOmission, view: LogView
    ) -> tuple[list[ExportedRange], list[Piece]]:
        """(the selected offsets that are not exported yet, the pieces to read them from)."""
        key = view.topic_partition
        ends = ends_of(
            view, read_committed=self.options.read_committed, on_corruption=self.options.on_corruption
        )
        done = self._ledger.ranges.get(key, [])
        _check_not_shorter(key, ends.valid.offset, done, self.folder.path)
        spans = missing(range_of(view, ends, self.options, on_omission), done)
        pieces = [piece for span in spans for piece in plan_range(self.disk, view, ends, *span)]
        return spans, pieces

    def _checked_id(self, found: FoundPartition) -> dict[str, str]:
        """The id of the partition's topic, if it is known.

        UsageError if the folder has another topic's records.
        """
        topic = found.topic_partition.topic
        text = topic_id_of(self.disk, found.directory)
        if text is None:
            return {}
        known = self._ledger.topic_ids.get(topic, text)
        if known != text:
            raise UsageError(
                f"the topic {topic} has the id {text}, but {self.folder.path} has records of a topic of that "
                f"name with the id {known}: the topic was deleted and created again. Export it to another "
                "folder."
            )
        return {topic: text}


def _check_elsewhere(disk: DiskReader, path: str) -> None:
    """UsageError for a folder in a log directory, because a broker would refuse to start there."""
    for folder in (PurePath(path), *PurePath(path).parents):
        if any(disk.exists(folder / name) for name in (META_PROPERTIES, RECOVERY_POINT_CHECKPOINT)):
            raise UsageError(
                f"{path} is in the log directory {folder}, and a broker refuses to start if it finds a "
                "folder there that is not a partition: export to a folder elsewhere."
            )


def _check_not_shorter(key: TopicPartition, end: int, done: Sequence[tuple[int, int]], path: str) -> None:
    if done and done[-1][1] > end:
        raise UsageError(
            f"{key} ends at offset {end}, but {path} has its offsets up to {done[-1][1]}: the partition was "
            "truncated, or is a different one. Export it to another folder."
        )


def _differences(known: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    names = [name for name in sorted({*known, *asked}) if known.get(name) != asked.get(name)]
    return ", ".join(names)


def _of_readers(known: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """Advice if a reader schema differs, for example because there is a newer one."""
    for name in DECODED:
        before, now = known.get(name, {}), asked.get(name, {})
        if before != now and before.get("encoding") == now.get("encoding"):
            return (
                f" The newest schema of the {name}s makes other columns than the folder has: to go on, name "
                f"the reader schema of the earlier runs. Its column was {before.get('schema')}."
            )
    return ""


def _task_to_json(task: ReadTask) -> dict[str, Any]:
    return {
        "include_control": task.include_control,
        "splits": [asdict(split) for split in task.splits],
    }


def _task_from_json(found: Mapping[str, Any]) -> ReadTask:
    splits = [
        Split(
            **{
                **split,
                "hint": Hint(**split["hint"]),
                "aborted": tuple((producer, first, last) for producer, first, last in split["aborted"]),
            }
        )
        for split in found["splits"]
    ]
    return ReadTask(
        splits=tuple(splits), include_control=found["include_control"], on_corruption=OnCorruption.FAIL
    )
