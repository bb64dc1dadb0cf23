"""The folder of an export, and how each record gets there exactly once.

    topic=orders/date=2026-11-15/run-000001-00003-0.parquet     what is exported
    ../.FOLDER.stratalog.json   the ledger: settings, and the offsets of each partition that are exported
    _stratalog/run-000002/      a run that is not finished
        plan.json               its tasks, with the offsets of each
        task-00003.json         this task is done, and these are its files
        omitted-*.json          what a task left out, if Spark's writers write its rows
        staged/                 files, each in a folder of the attempt that wrote it
        commit.json             all tasks are done: which file goes where, and the ledger that follows

The files of a task are valid when its note exists; the note is written atomically. The files of a run are
valid when `commit.json` exists. From then on the run is only rolled forward: files are renamed, the ledger is
replaced, the run's folder is deleted. So after a kill at any point, running the export again finishes the run
and repeats nothing.

Spark and Arrow ignore folders that begin with an underscore. Polars ignores only empty files: a ledger
in the folder would make it refuse the whole folder. So the ledger is beside the folder, unless only the
folder itself can be written to. Older versions had the ledger in `_stratalog/ledger.json`; the next run moves
it.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stratalog.errors import DiskError, PreconditionError, UsageError
from stratalog.files.directories import make_unsynced_directories
from stratalog.files.disk import Disk, EntryKind
from stratalog.files.names import TopicPartition
from stratalog.files.paths import join_path, last_name, parent_path
from stratalog.jobs.reading.omissions import Omission, joined_up

STATE = "_stratalog"
FORMAT_VERSION = 1
_OMITTED = "omitted-"
ExportedRange = tuple[int, int]
ExportedRanges = dict[TopicPartition, list[ExportedRange]]


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What a folder contains when no run is under way: offset ranges by partition, ascending and disjoint."""

    settings: Mapping[str, Any]
    run: int = 0
    ranges: ExportedRanges
    topic_ids: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        ranges: dict[str, dict[str, list[ExportedRange]]] = {}
        for (topic, partition), spans in sorted(self.ranges.items()):
            ranges.setdefault(topic, {})[str(partition)] = spans
        return {
            "version": FORMAT_VERSION,
            "run": self.run,
            "settings": dict(self.settings),
            "topic_ids": dict(self.topic_ids),
            "ranges": ranges,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Ledger:
        ranges = {
            TopicPartition(topic, int(partition)): [(start, end) for start, end in spans]
            for topic, partitions in found["ranges"].items()
            for partition, spans in partitions.items()
        }
        return cls(settings=found["settings"], run=found["run"], ranges=ranges, topic_ids=found["topic_ids"])


@dataclass(frozen=True, kw_only=True)
class StagedFile:
    """A finished file of a task: its place, its final place (both below the folder), its rows and bytes."""

    staged: str
    target: str
    rows: int
    size: int


@dataclass(frozen=True, kw_only=True)
class TaskNote:
    """What a task wrote, and what it left out."""

    files: tuple[StagedFile, ...]
    rows: int
    undecoded: int
    omissions: tuple[Omission, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "undecoded": self.undecoded,
            "files": [[each.staged, each.target, each.rows, each.size] for each in self.files],
            "omissions": [each.to_json() for each in self.omissions],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> TaskNote:
        files = tuple(
            StagedFile(staged=staged, target=target, rows=rows, size=size)
            for staged, target, rows, size in found["files"]
        )
        return cls(
            files=files,
            rows=found["rows"],
            undecoded=found["undecoded"],
            omissions=_omissions(found),
        )


class ExportFolder:
    """The state of an export on disk. Changing it requires the lock of `state_path`."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.state_path = join_path(path, STATE)

    def create(self) -> None:
        """Create the folder if it does not exist; UsageError if it contains something else."""
        status = self._disk.status(self.path)
        if status is not None and status.kind is not EntryKind.DIRECTORY:
            raise UsageError(
                f"{self.path} is not a folder: give a new folder, or the folder of an earlier export."
            )
        if not self._disk.exists(self.state_path) and self._disk.exists(self.ledger_path):
            raise UsageError(
                f"{self.ledger_path} says what was exported to {self.path}, but that folder is empty or "
                "gone. Was it moved or deleted, or is it not mounted? To export everything again, delete the "
                "ledger."
            )
        if status is not None and not self._disk.exists(self.state_path):
            strange = [entry.name for entry in self._disk.list_directory(self.path)]
            if strange:
                raise UsageError(
                    f"{self.path} contains {strange[0]} and is not the folder of an export: give a new "
                    "folder."
                )
        for parent in sorted(make_unsynced_directories(self._disk, self.state_path)):
            self._disk.sync_directory(parent)

    @property
    def ledger_path(self) -> str:
        """The place of the ledger, beside the folder."""
        return join_path(parent_path(self.path), f".{last_name(self.path)}.stratalog.json")

    def ledger(self) -> Ledger | None:
        """What the folder contains; None if nothing was exported to it yet."""
        places = (self.ledger_path, self._inner_ledger_path)
        found = [(each, path) for path in places if (each := self._read(path)) is not None]
        for each, path in found:
            if each.get("version") != FORMAT_VERSION:
                raise UsageError(
                    f"{path} has the version {each.get('version')}: another version of Stratalog exported to "
                    "this folder. Use that version again, or export to another folder."
                )
        if not found:
            self._check_new()
            return None
        # Both are there if a run ended while it moved the ledger.
        return Ledger.from_json(max((each for each, _ in found), key=lambda each: int(each["run"])))

    def _check_new(self) -> None:
        """UsageError for a folder that has files but no ledger, unless its first run is under way."""
        if not [name for name in self._entries(self.path) if name != STATE]:
            return
        if not [name for name in self._entries(self.state_path) if name.startswith("run-")]:
            raise UsageError(
                f"{self.ledger_path}, which says what is in {self.path}, is missing: move it here with the "
                "folder, or export to another folder."
            )

    def _write_ledger(self, document: Mapping[str, Any]) -> None:
        try:
            self._write(self.ledger_path, document)
        except DiskError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            self._write(self._inner_ledger_path, document)
        else:
            if self._disk.exists(self._inner_ledger_path):
                self._disk.delete(self._inner_ledger_path)

    @property
    def _inner_ledger_path(self) -> str:
        return join_path(self.state_path, "ledger.json")

    def run_path(self, run: int) -> str:
        return join_path(self.state_path, f"run-{run:06d}")

    def begin(self, run: int, plan: Mapping[str, Any]) -> None:
        """Write the plan of a run; from then on the run is under way."""
        path = self.run_path(run)
        remove_tree(self._disk, path)  # remains of a run that is given up
        # Synced first: if the plan is on disk after a power cut, its folders must be there too.
        for changed in sorted(make_unsynced_directories(self._disk, join_path(path, "staged"))):
            self._disk.sync_directory(changed)
        self._write(join_path(path, "plan.json"), plan)

    def plan(self, run: int) -> dict[str, Any] | None:
        """The plan of a run that is under way."""
        return self._read(join_path(self.run_path(run), "plan.json"))

    def note(self, run: int, task: int) -> TaskNote | None:
        found = self._read(self._note_path(run, task))
        return None if found is None else TaskNote.from_json(found)

    def write_note(self, run: int, task: int, note: TaskNote) -> None:
        """Mark the task as done: its files are valid from now on."""
        self._write(self._note_path(run, task), note.to_json())

    def write_omissions(self, run: int, attempt: str, task: int, omissions: Sequence[Omission]) -> None:
        """Note what a task of an attempt has left out, for tasks that write no note of their own."""
        path = join_path(self.run_path(run), f"{_OMITTED}{attempt}-{task:05d}.json")
        self._write(path, {"omissions": [each.to_json() for each in omissions]})

    def omissions(self, run: int, attempt: str) -> tuple[Omission, ...]:
        """What the tasks of an attempt have left out."""
        names = [name for name in self._entries(self.run_path(run)) if name.startswith(_OMITTED + attempt)]
        found = [self._read(join_path(self.run_path(run), name)) for name in names]
        return tuple(joined_up(omission for each in found for omission in _omissions(each or {})))

    def commit(self, run: int, notes: Sequence[TaskNote], ledger: Ledger) -> None:
        """Move the files of a run to their places. After a kill at any point it can be called again."""
        moves = [[each.staged, each.target] for note in notes for each in note.files]
        omissions = [each.to_json() for note in notes for each in note.omissions]
        self._write(
            join_path(self.run_path(run), "commit.json"),
            {
                "moves": moves,
                "ledger": ledger.to_json(),
                "omissions": omissions,
                "undecoded": sum(note.undecoded for note in notes),
            },
        )
        self.roll_forward(run)

    def roll_forward(self, run: int) -> tuple[tuple[Omission, ...], int] | None:
        """Finish a commit that was begun; None if there was none.

        Returns what its run left out, and how many keys and values it could not decode.
        """
        path = self.run_path(run)
        commit = self._read(join_path(path, "commit.json"))
        if commit is None:
            return None
        changed = set()
        for staged, target in commit["moves"]:
            source, place = (join_path(self.path, each) for each in (staged, target))
            if self._disk.exists(source):
                changed |= make_unsynced_directories(self._disk, parent_path(place))
                self._disk.rename(source, place)
                changed.add(parent_path(place))
            elif not self._disk.exists(place):
                raise PreconditionError(
                    source, expected="a finished file", found="nothing, neither here nor where it belongs"
                )
        for folder in sorted(changed):
            self._disk.sync_directory(folder)
        self._write_ledger(commit["ledger"])
        self._clear(path)
        return _omissions(commit), int(commit.get("undecoded", 0))

    def forget(self, run: int) -> None:
        """Remove the files that are left of a run which is in the ledger."""
        self._clear(self.run_path(run))

    def _clear(self, path: str) -> None:
        # commit.json is deleted last: without it the plan would be run again.
        for entry in self._entries(path):
            if entry != "commit.json":
                remove_tree(self._disk, join_path(path, entry))
        remove_tree(self._disk, path)

    def _entries(self, path: str) -> list[str]:
        if not self._disk.exists(path):
            return []
        return [entry.name for entry in self._disk.list_directory(path)]

    def _note_path(self, run: int, task: int) -> str:
        return join_path(self.run_path(run), f"task-{task:05d}.json")

    def _read(self, path: str) -> dict[str, Any] | None:
        status = self._disk.status(path)
        if status is None:
            return None
        text = self._disk.read_at(path, status.size, 0)
        try:
            found: dict[str, Any] = json.loads(text)
        except json.JSONDecodeError as error:
            raise UsageError(
                f"{path} is damaged, it is not JSON: {error}. Export to another folder."
            ) from None
        return found

    def _write(self, path: str, document: Mapping[str, Any]) -> None:
        self._disk.replace(path, json.dumps(document).encode())


def _omissions(found: Mapping[str, Any]) -> tuple[Omission, ...]:
    return tuple(Omission.from_json(each) for each in found.get("omissions", ()))


def missing(asked: ExportedRange, done: Iterable[ExportedRange]) -> list[ExportedRange]:
    """The parts of [start, end) that are in none of the ranges."""
    start, end = asked
    gaps = []
    for low, high in sorted(done):
        if low > start:
            gaps.append((start, min(low, end)))
        start = max(start, high)
        if start >= end:
            return [gap for gap in gaps if gap[0] < gap[1]]
    return [gap for gap in [*gaps, (start, end)] if gap[0] < gap[1]]


def joined(ranges: Iterable[ExportedRange]) -> list[ExportedRange]:
    """The same offsets in as few ranges as possible, ascending."""
    found: list[ExportedRange] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def remove_tree(disk: Disk, path: str) -> None:
    """Remove a file, or a directory with everything in it, if it exists."""
    status = disk.status(path)
    if status is None:
        return
    if status.kind is not EntryKind.DIRECTORY:
        disk.delete(path)
        return
    for entry in disk.list_directory(path):
        child = join_path(path, entry.name)
        if entry.kind is EntryKind.DIRECTORY:
            remove_tree(disk, child)
        else:
            disk.delete(child)
    disk.remove_directory(path)
