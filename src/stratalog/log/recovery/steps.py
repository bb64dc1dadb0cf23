"""The steps of a plan, as values, and the code that does them.

A step names a file as the survey found it (`FileFact`): size, id and time are compared just before the step,
and the first difference stops everything with a PreconditionError. The run remembers what its own steps have
changed or renamed, and expects such a file as the earlier step left it. So a plan need not follow these
changes: each of its steps names a file as it was listed.

Neighbouring steps that write files are done together; with `steps_in_rounds`, together with those of other
partitions. Syncing many files at once takes a fraction of the time.

After a killed run, a new plan is made from a new listing, which shows what is already done. A step whose
result is already there counts as done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from stratalog.buffers import aligned_buffer
from stratalog.errors import PreconditionError
from stratalog.files.disk import Disk, EntryKind, Path
from stratalog.files.names import FileState, parse_segment_file
from stratalog.files.paths import join_path, last_name
from stratalog.files.reading import DiskReader
from stratalog.log.recovery.applied import Applied
from stratalog.log.recovery.facts import FileFact
from stratalog.log.recovery.manifest import ManifestEntry
from stratalog.log.recovery.quarantine import FileRange, Quarantine, log_directory_of

_CHUNK_SIZE = 1 << 20
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete a file whose bytes are worthless, or are in another file too."""

    file: FileFact
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """Rename a file. `over` is a file that has the new name now and is replaced; None: there must be none."""

    file: FileFact
    to: str
    why: str
    over: FileFact | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """Cut a file to `size` bytes. An earlier step has kept what is cut off a .log."""

    file: FileFact
    size: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFile:
    """Replace a file by `data`, atomically. `file` is the file that has the name now; None: there is none."""

    name: str
    data: bytes
    file: FileFact | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRanges:
    """Copy ranges (position, size) of a file to `to`, whose name ends in .cleaned; the modification time
    stays.

    An existing file of that name is worthless, as its name says, and is deleted first.
    """

    file: FileFact
    to: str
    ranges: tuple[tuple[int, int], ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRange:
    """Put bytes of a file into quarantine, before a later step cuts them off."""

    file: FileFact
    position: int
    size: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepFile:
    """Move a file into quarantine."""

    file: FileFact
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """Wait until the bytes of a file, under its name at that time, are on the device."""

    name: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncDirectory:
    """Wait until the names in the directory are on the device."""

    why: str = ""


Step = Delete | Rename | Truncate | WriteFile | CopyRanges | KeepRange | KeepFile | Sync | SyncDirectory
Keeping = KeepRange | KeepFile
Kept = tuple[tuple[Keeping, ManifestEntry], ...]
Files = list[tuple[str, bytes]]  # with their new content


def apply_steps(
    disk: Disk,
    directory: Path,
    steps: Iterable[Step],
    quarantine: Quarantine | None,
    *,
    full: Sequence[Quarantine] = (),
    before_change: Callable[[], object] | None = None,
) -> Kept:
    """Do the steps in this partition's directory; returns what went into quarantine, by step.

    Without a quarantine, nothing is kept. The quarantines in `full` may have received some of these bytes in
    an earlier attempt. `before_change` is called once, before the first step, after the check that there is
    room in quarantine; without steps it is not called.
    """
    rounds = steps_in_rounds(disk, directory, steps, quarantine, full=full, before_change=before_change)
    return write_rounds(disk, rounds)


def steps_in_rounds(
    disk: Disk,
    directory: Path,
    steps: Iterable[Step],
    quarantine: Quarantine | None,
    *,
    full: Sequence[Quarantine] = (),
    before_change: Callable[[], object] | None = None,
    applied: Applied | None = None,
) -> Generator[Files, None, Kept]:
    """As `apply_steps`, but it stops whenever files must be written, and yields them.

    The caller replaces them (`Disk.replace_all`), together with those of other partitions, and continues.
    `applied` is kept up to date.
    """
    todo = tuple(steps)
    if not todo:
        return ()
    run = _Run(disk, os.fspath(directory), [quarantine, *full], applied or Applied())
    run.looks_back = _looks_back(todo)
    run.require_room(todo)
    if before_change is not None:
        before_change()
    for group in _groups(todo):
        if files := run.files_to_write(group):
            yield files
        for step in group:
            if isinstance(step, WriteFile):
                run.note_written(step)
            else:
                run.do(step)
    return tuple(run.kept)


def write_rounds(disk: Disk, rounds: Generator[Files, None, T]) -> T:
    """Replace the files of each round; returns what the rounds return."""
    while True:
        try:
            files = next(rounds)
        except StopIteration as end:
            result: T = end.value
            return result
        disk.replace_all(files)


def _looks_back(steps: Sequence[Step]) -> bool:
    """Whether a step may look at a file that an earlier one has written."""
    names = [step.name for step in steps if isinstance(step, WriteFile)]
    only_writes = len(names) == sum(not isinstance(step, SyncDirectory) for step in steps)
    return not only_writes or len({*names}) < len(names)


def _groups(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Groups of steps, in order: neighbours that write different files together, any other step alone."""
    group: list[Step] = []
    names: set[str] = set()
    for step in steps:
        if isinstance(step, WriteFile) and step.name not in names:
            names.add(step.name)
            group.append(step)
            continue
        if group:
            yield group
        group, names = ([step], {step.name}) if isinstance(step, WriteFile) else ([], set())
        if not group:
            yield [step]
    if group:
        yield group


def ranges_to_keep(
    disk: DiskReader, directory: Path, steps: Iterable[Step], quarantine: Quarantine
) -> list[FileRange] | None:
    """The ranges of files that the steps copy into this quarantine; None if they put nothing there.

    A whole file is not copied but renamed, if the quarantine is on the same device.
    """
    kept = [step for step in steps if isinstance(step, KeepRange | KeepFile)]
    if not kept:
        return None
    can_move = disk.is_same_device(directory, quarantine.directory)
    ranges = []
    for step in kept:
        path = join_path(directory, step.file.name)
        if isinstance(step, KeepRange):
            ranges.append((path, step.position, step.size))
        elif not can_move and step.file.size:
            ranges.append((path, 0, step.file.size))
    return ranges


def names_in_quarantine(
    disk: DiskReader, directory: Path, steps: Iterable[Step], quarantine: Quarantine
) -> list[tuple[Keeping, str, tuple[str, ...]]]:
    """For each step that keeps bytes: the step, the live name of its file, and the names in quarantine."""
    can_move = disk.is_same_device(directory, quarantine.directory)
    partition = last_name(os.path.normpath(directory))
    found: list[tuple[Keeping, str, tuple[str, ...]]] = []
    for step in steps:
        if not isinstance(step, KeepRange | KeepFile):
            continue
        file, path = _live_name(step.file.name), join_path(directory, step.file.name)
        if isinstance(step, KeepFile) and can_move:
            names = quarantine.names_of_file(path, partition=partition, file=file)
        else:
            whole = (0, step.file.size)
            position, size = (step.position, step.size) if isinstance(step, KeepRange) else whole
            names = quarantine.names_of_range(
                path, partition=partition, file=file, position=position, size=size
            )
        found.append((step, file, names))
    return found


class _Run:
    """One application of a plan; it remembers the files as its own steps left them."""

    def __init__(
        self, disk: Disk, directory: str, places: Sequence[Quarantine | None], applied: Applied
    ) -> None:
        self.kept, self._shortened = applied.kept, applied.shortened
        self._disk = disk
        self._directory = directory
        self._partition = last_name(os.path.normpath(directory))
        self._quarantine = places[0]
        self._places = [place for place in places if place is not None]
        self._renamed: dict[str, str] = {}
        self._left: dict[str, FileFact] = {}
        self.looks_back = True

    def require_room(self, steps: Iterable[Step]) -> None:
        if self._quarantine is not None:
            ranges = ranges_to_keep(self._disk, self._directory, steps, self._quarantine)
            if ranges is not None:
                self._quarantine.require_writable()
                self._quarantine.require_room(ranges)

    def files_to_write(self, steps: Iterable[Step]) -> Files:
        """The files of these steps that do not have their content yet."""
        return [
            (self._path(step.name), step.data)
            for step in steps
            if isinstance(step, WriteFile) and not self._is_written(step)
        ]

    def note_written(self, step: WriteFile) -> None:
        self._renamed.pop(step.name, None)
        if self.looks_back:
            self._remember(step.name)

    def do(self, step: Step) -> None:
        """Do a step that is not a WriteFile."""
        match step:
            case Delete(file=file):
                self._delete(file)
            case Rename():
                self._rename(step)
            case Truncate():
                self._truncate(step)
            case CopyRanges():
                self._copy(step)
            case KeepRange() | KeepFile():
                self._keep(step)
            case Sync(name=name):
                self._disk.sync(self._path(self._now(name)))
            case SyncDirectory():
                self._disk.sync_directory(self._directory)

    def _delete(self, file: FileFact) -> None:
        name = self._now(file.name)
        if self._found(name) is not None:
            self._require(file)
            self._disk.delete(self._path(name))

    def _rename(self, step: Rename) -> None:
        name = self._now(step.file.name)
        target = self._found(step.to)
        if self._found(name) is None and target is not None and target.is_same_but_for_name(step.file):
            self._renamed[name] = step.to
            return
        file = self._require(step.file)
        if target is not None:
            if step.over is None:
                raise PreconditionError(self._path(step.to), "no file", target.words)
            self._require(step.over)
        self._disk.rename(self._path(name), self._path(step.to))
        if step.over is not None:
            self._shortened.add(_live_name(step.to))
        self._left.pop(step.to, None)
        self._renamed.pop(step.to, None)
        self._renamed[name] = step.to
        self._left[step.to] = file._replace(name=step.to)

    def _truncate(self, step: Truncate) -> None:
        name = self._now(step.file.name)
        found = self._found(name)
        if found is not None and (found.id, found.size) == (step.file.id, step.size):
            return
        self._require(step.file)
        self._disk.truncate(self._path(name), step.size)
        self._shortened.add(_live_name(name))
        self._remember(name)

    def _is_written(self, step: WriteFile) -> bool:
        """Whether the file has its content already; PreconditionError if it is not as it was listed."""
        path = self._path(step.name)
        found = self._found(step.name)
        size = len(step.data)
        if found is not None and found.size == size and self._disk.read_at(path, size, 0) == step.data:
            self._disk.sync(path)  # a power cut may have come before it was on the device
            return True
        if step.file is not None:
            self._require(step.file)
        elif found is not None and found != self._left.get(step.name):
            raise PreconditionError(path, "no file", found.words)
        return False

    def _copy(self, step: CopyRanges) -> None:
        assert step.to.endswith(FileState.CLEANED.value), "any other name would be trusted after a crash"
        file = self._require(step.file)
        source, target = self._path(file.name), self._path(step.to)
        self._disk.delete(target)
        self._disk.create(target)
        buffer = aligned_buffer(_CHUNK_SIZE)
        for position, size in step.ranges:
            end = position + size
            while position < end:
                view = buffer[: min(_CHUNK_SIZE, end - position)]
                if self._disk.read_into(source, view, position) < len(view):
                    raise PreconditionError(source, f"{end} bytes or more", "a shorter file")
                self._disk.append(target, view)
                position += len(view)
        self._disk.set_modified(target, file.mtime_ms)
        self._disk.sync(target)
        self._remember(step.to)

    def _keep(self, step: Keeping) -> None:
        name = self._now(step.file.name)
        live = _live_name(name)
        path = self._path(name)
        quarantine = self._quarantine
        if isinstance(step, KeepFile) and self._found(name) is None:
            came_from = log_directory_of(self._directory), self._partition, live
            found = (place.moved(*came_from, step.file.id, step.file.size) for place in self._places)
            moved = next((kept for kept in found if kept is not None), None)
            if self._places and moved is None:
                raise PreconditionError(path, step.file.words, "no file")
            if moved is not None:
                self.kept.append((step, moved))
            return
        self._require(step.file)
        if quarantine is None:
            if isinstance(step, KeepFile):
                self._disk.delete(path)
                self._shortened.add(live)
        elif isinstance(step, KeepFile):
            kept = quarantine.keep_file(path, partition=self._partition, file=live, reason=step.why)
            self.kept.append((step, kept))
        else:
            kept = quarantine.keep_range(
                path,
                partition=self._partition,
                file=live,
                position=step.position,
                size=step.size,
                reason=step.why,
            )
            self.kept.append((step, kept))

    def _now(self, name: str) -> str:
        """The present name of a file, after the renames of this run."""
        while name in self._renamed:
            name = self._renamed[name]
        return name

    def _path(self, name: str) -> str:
        return join_path(self._directory, name)

    def _found(self, name: str) -> FileFact | None:
        status = self._disk.status(self._path(name))
        if status is None:
            return None
        if status.kind is not EntryKind.FILE:
            raise PreconditionError(self._path(name), "a file", f"a {status.kind.value}")
        return FileFact(name, status.size, status.id, status.mtime_ms)

    def _require(self, file: FileFact) -> FileFact:
        """The file as it is now; PreconditionError unless it is as listed, or as this run left it."""
        name = self._now(file.name)
        found = self._found(name)
        expected = self._left.get(name, file)
        if found is None or not found.is_same_but_for_name(expected):
            present = "no file" if found is None else found.words
            raise PreconditionError(self._path(name), expected.words, present)
        return found

    def _remember(self, name: str) -> None:
        found = self._found(name)
        if found is not None:
            self._left[name] = found


def _live_name(name: str) -> str:
    file = parse_segment_file(name)
    return name if file is None else file._replace(state=FileState.LIVE).name
