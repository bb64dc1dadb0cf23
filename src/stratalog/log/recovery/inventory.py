"""The virtual directory of a partition: its files as they will be when every interrupted swap is finished.

A cleaning or a split writes its new segments as .cleaned, renames them to .swap from the highest to the
lowest, renames the segments they replace to .deleted, and then removes the suffix. A process can die at any
of these steps. Kafka then reads the names like this (LogLoader, before it loads a segment):

1. .deleted files are garbage. A .cleaned file proves that the renaming to .swap was not finished. So the
   .cleaned files are garbage, and so is every .swap file from the lowest .cleaned offset on.
2. Any other .log.swap is complete. These files replace everything from the lowest of them to the end of the
   highest, including indexes and snapshots; what they replace is garbage.
3. The .swap files lose their suffix.
4. An index without its .log is garbage. (Kafka deletes it later, while it loads the segments.)

Nothing is changed here. `steps` turn the real directory into the virtual one. After a power cut only some of
the steps may be on the device, and the next recovery must still find the same virtual directory. So a file
that shows what must be done is removed only after that is done and on the device:

- The .swap files that are garbage are deleted before the .cleaned files.
- Replaced segments are deleted before the first .swap file loses its suffix.
- Then the logs lose their suffix, one by one from the lowest up: a live log between two swaps would count as
  replaced.
- The indexes lose it last: a live index beside a .log.swap would count as replaced too.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from stratalog.errors import CorruptRecordError, InvalidNameError, UnusableSegmentError
from stratalog.files.disk import DirectoryEntry, EntryKind, Path
from stratalog.files.names import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    TEMPORARY_SUFFIX,
    FileKind,
    FileState,
    SegmentFile,
    parse_kraft_snapshot_file,
    parse_segment_file,
)
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.limits import INT32_MAX
from stratalog.log.recovery.facts import FileFact, Finding, FindingKind, missing_logs
from stratalog.log.recovery.steps import Delete, Rename, Step, SyncDirectory
from stratalog.records.batch import RECORD_BATCH_OVERHEAD, BatchHeader
from stratalog.records.kernels.index import LAST
from stratalog.records.kernels.memory import Bytes
from stratalog.segment.headers import ReadInto, find_batch

_INDEX_ENTRY = struct.Struct(">ii")  # offset from the base, position: docs/formats/offset-index.md
_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
_Files = dict[SegmentFile, FileFact]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSegment:
    """The files of one segment, under the names they have on disk now."""

    base_offset: int
    log: FileFact
    index: FileFact | None
    time_index: FileFact | None
    txn_index: FileFact | None

    @property
    def log_name(self) -> str:
        """The name of the .log when the inventory's steps are done."""
        return SegmentFile(self.base_offset, FileKind.LOG).name


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The virtual directory, the steps that make it real, and the findings.

    `segments` ascend. `snapshots` are producer snapshots, by offset. `others` are names that are left alone.
    `lost_logs` are the bases of segments whose .log is missing, although nobody has deleted the segment.
    """

    directory: str
    segments: tuple[FoundSegment, ...]
    snapshots: dict[int, FileFact]
    epoch_file: FileFact | None
    metadata_file: FileFact | None
    others: tuple[str, ...]
    lost_logs: tuple[int, ...]
    steps: tuple[Step, ...]
    findings: tuple[Finding, ...]

    def all_findings(self, log_start_offset: int) -> list[Finding]:
        """The findings, with those of lost logs, unless the log starts after them."""
        bases = [segment.base_offset for segment in self.segments]
        return [*self.findings, *missing_logs(self.lost_logs, bases, log_start_offset)]


def take_inventory(disk: DiskReader, directory: Path) -> Inventory:
    """The virtual directory of a partition. UnusableSegmentError for a .log that must not be touched.

    Only .log.swap files and their offset indexes are read, to find the offset at which each ends.
    """
    sorting = _Sorting(os.fspath(directory))
    for entry in disk.list_directory(directory):
        sorting.add(entry)
    _drop_unfinished(sorting)
    _finish_swaps(disk, sorting)
    _drop_orphans(sorting)
    if sorting.steps and not isinstance(sorting.steps[-1], SyncDirectory):
        sorting.steps.append(SyncDirectory())
    files = sorting.files
    live = FileState.LIVE
    return Inventory(
        directory=sorting.directory,
        segments=tuple(
            FoundSegment(
                base_offset=base_offset,
                log=files[SegmentFile(base_offset, FileKind.LOG)],
                index=files.get(SegmentFile(base_offset, FileKind.OFFSET_INDEX)),
                time_index=files.get(SegmentFile(base_offset, FileKind.TIME_INDEX)),
                txn_index=files.get(SegmentFile(base_offset, FileKind.TXN_INDEX)),
            )
            for base_offset in sorted(file.offset for file in files if file.kind is FileKind.LOG)
        ),
        snapshots={
            file.offset: fact
            for file, fact in sorted(files.items(), key=lambda item: item[0].offset)
            if file.kind is FileKind.PRODUCER_SNAPSHOT and file.state is live
        },
        epoch_file=sorting.named.get(LEADER_EPOCH_CHECKPOINT),
        metadata_file=sorting.named.get(PARTITION_METADATA),
        others=tuple(sorting.others),
        lost_logs=tuple(sorted(sorting.lost_logs)),
        steps=tuple(sorting.steps),
        findings=tuple(sorting.findings),
    )


@dataclass(slots=True)
class _Sorting:
    """The parsed listing; `files` becomes the virtual directory step by step."""

    directory: str
    files: _Files = field(default_factory=dict)
    named: dict[str, FileFact] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    odd_logs: set[int] = field(default_factory=set)
    deleted_logs: dict[int, FileFact] = field(default_factory=dict)
    lost_logs: set[int] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def add(self, entry: DirectoryEntry) -> None:
        name = entry.name
        fact = FileFact(name, entry.size, entry.id, entry.mtime_ms)
        is_file = entry.kind is EntryKind.FILE
        file = self._parsed(name)
        if is_file and file is not None and file.kind is FileKind.LOG:
            self._check_log(entry)
        if not is_file or entry.is_symlink:
            if file is not None:
                self._say_foreign(name, "it is not a regular file", "It is left alone.")
                self.odd_logs |= {file.offset} if file.kind is FileKind.LOG else set()
            self.others.append(name)
        elif file is not None and file.state is not FileState.DELETED:
            self.files[file] = fact
        elif name in (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA):
            self.named[name] = fact
        elif name.endswith(FileState.DELETED.value) and parse_kraft_snapshot_file(name) is None:
            # A broker deletes every file with this suffix at its next start.
            if file is not None and file.kind is FileKind.LOG:
                self.deleted_logs[file.offset] = fact
            self.drop(fact, "renamed to be deleted", FindingKind.LEFTOVER)
        elif name == LEADER_EPOCH_CHECKPOINT + TEMPORARY_SUFFIX or (
            self._parsed(name.removesuffix(TEMPORARY_SUFFIX), is_quiet=True) and not file
        ):
            self.drop(fact, "left over from a replacement that was interrupted", FindingKind.LEFTOVER)
        else:
            self.others.append(name)

    def drop(self, fact: FileFact, why: str, kind: FindingKind) -> None:
        self.steps.append(Delete(file=fact, why=why))
        self.findings.append(
            Finding(kind=kind, file=fact.name, words=f"{why}.", consequence="It is deleted.")
        )

    def take(self, matches: Callable[[SegmentFile], bool]) -> Iterator[tuple[SegmentFile, FileFact]]:
        """Take the files that match out of the virtual directory, from the lowest offset up."""
        for file in sorted((file for file in self.files if matches(file)), key=_order):
            yield file, self.files.pop(file)

    def _parsed(self, name: str, *, is_quiet: bool = False) -> SegmentFile | None:
        try:
            file = parse_segment_file(name)
        except InvalidNameError:
            file = None
            if not is_quiet and not name.endswith(FileState.DELETED.value):
                self._say_foreign(
                    name,
                    "its name ends like that of a segment's file, but has no offset",
                    "A broker refuses to start because of it.",
                )
        if file is not None and (file.offset < 0 or file.name != name):
            if not is_quiet:
                self._say_foreign(
                    name, f"Kafka would call it {file.name}", "A broker may fail because of it."
                )
            return None
        return file

    def _say_foreign(self, name: str, words: str, consequence: str) -> None:
        kind = FindingKind.FOREIGN_FILE
        self.findings.append(Finding(kind=kind, file=name, words=f"{words}.", consequence=consequence))

    def _check_log(self, entry: DirectoryEntry) -> None:
        path = join_path(self.directory, entry.name)
        if entry.is_symlink:
            raise UnusableSegmentError(
                path,
                "it is a symbolic link. Recovery does not write through links: put the file itself here.",
            )
        if entry.size > INT32_MAX:
            raise UnusableSegmentError(
                path,
                f"it has {entry.size} bytes, but a broker loads segments of at most {INT32_MAX}. Kafka did "
                "not write this file: move it away, or restore it from where it was copied.",
            )


def _order(file: SegmentFile) -> tuple[int, str]:
    return file.offset, file.kind.value


def _drop_unfinished(sorting: _Sorting) -> None:
    """Pass 1: drop unfinished .cleaned files, and .swap files whose renaming was not finished."""
    unfinished = [file.offset for file in sorting.files if file.state is FileState.CLEANED]
    if not unfinished:
        return
    lowest = min(unfinished)
    for _, fact in sorting.take(lambda file: file.state is FileState.SWAP and file.offset >= lowest):
        sorting.drop(
            fact,
            f"left over from a swap that did not begin: {lowest} is still .cleaned",
            FindingKind.LEFTOVER,
        )
    sorting.steps.append(
        SyncDirectory(why="the .cleaned files prove that what is dropped above was not needed")
    )
    for _, fact in sorting.take(lambda file: file.state is FileState.CLEANED):
        sorting.drop(fact, "left over from a cleaning or split that was not finished", FindingKind.LEFTOVER)


def _finish_swaps(disk: DiskReader, sorting: _Sorting) -> None:
    """Passes 2 and 3: drop the files that swapped segments replace, and rename the swapped segments."""
    swaps = dict(sorting.take(lambda file: file.state is FileState.SWAP))
    logs = [file for file in swaps if file.kind is FileKind.LOG]
    if logs:
        lowest = logs[0].offset
        end = max(_next_offset(disk, sorting, file, swaps) for file in logs)
        why = f"replaced by the swapped segments of offsets {lowest} to {end - 1}"
        for _, fact in sorting.take(lambda file: lowest <= file.offset < end):
            sorting.drop(fact, why, FindingKind.UNFINISHED_SWAP)
        sorting.steps.append(SyncDirectory(why="a live segment between two swaps counts as replaced"))
    for file in [*logs, *(file for file in swaps if file.kind is not FileKind.LOG)]:
        live = file._replace(state=FileState.LIVE)
        if file.kind in _INDEXES and file.offset not in _log_offsets(sorting):
            sorting.drop(swaps[file], "an index without its log", FindingKind.ORPHAN_INDEX)
            continue
        over = sorting.files.get(live)
        why = "it is whole, and the segments that it replaces are gone"
        sorting.steps.append(Rename(file=swaps[file], to=live.name, why=why, over=over))
        sorting.files[live] = swaps[file]
        sorting.findings.append(
            Finding(
                kind=FindingKind.UNFINISHED_SWAP,
                file=swaps[file].name,
                words="A replacement was interrupted before its last step.",
                consequence=f"It becomes {live.name}.",
            )
        )
        if file.kind is FileKind.LOG:
            sorting.steps.append(SyncDirectory(why="logs get their names in order"))


def _drop_orphans(sorting: _Sorting) -> None:
    """Pass 4: drop indexes without their log.

    To delete a segment, a broker renames first its log. If there is neither a .log nor a .log.deleted, the
    log was lost. A .log.deleted is deleted after such an index, so that the next recovery sees it too.
    """
    logs = _log_offsets(sorting)
    proofs: list[FileFact] = []
    for file, fact in sorting.take(lambda file: file.kind in _INDEXES and file.offset not in logs):
        sorting.drop(fact, "an index without its log", FindingKind.ORPHAN_INDEX)
        if file.offset in sorting.deleted_logs:
            proofs.append(sorting.deleted_logs[file.offset])
        else:
            sorting.lost_logs.add(file.offset)
    last = [step for step in sorting.steps if isinstance(step, Delete) and step.file in proofs]
    if last:
        others = (step for step in sorting.steps if step not in last)
        sorting.steps = [*others, SyncDirectory(why="the deleted logs explain these indexes"), *last]


def _log_offsets(sorting: _Sorting) -> set[int]:
    """The offsets that have a .log. If such a .log is a directory, its indexes are left alone."""
    return sorting.odd_logs | {file.offset for file in sorting.files if file.kind is FileKind.LOG}


def _next_offset(disk: DiskReader, sorting: _Sorting, file: SegmentFile, swaps: _Files) -> int:
    """The next offset after the last batch of a .log.swap; the search starts at the last entry of its index.

    Kafka: LogSegment.readNextOffset
    """
    path = join_path(sorting.directory, file.name)
    index = swaps.get(file._replace(kind=FileKind.OFFSET_INDEX))
    with disk.open_read(path) as log:
        size = disk.size(log)

        def read_into(buffer: Bytes, position: int) -> int:
            return disk.read_into(log, buffer, position)

        start = (
            0
            if index is None
            else _last_indexed(disk, sorting.directory, index, file.offset, read_into, size)
        )
        end = size
        while True:
            try:
                last = find_batch(read_into, start, end, LAST, 0, path=path)
                break
            except CorruptRecordError as error:
                # The readable batches show where the file ends; the later scan finds the damage again.
                start, end = (0, size) if 0 < start == error.position else (start, error.position)
    return file.offset if last is None else last.last_offset + 1


def _last_indexed(
    disk: DiskReader, directory: str, index: FileFact, base_offset: int, read_into: ReadInto, log_size: int
) -> int:
    """The position of the last indexed batch, if the index matches this log; else 0, the start of the log."""
    if index.size == 0 or index.size % _INDEX_ENTRY.size:
        return 0
    path = join_path(directory, index.name)
    entry = disk.read_at(path, _INDEX_ENTRY.size, index.size - _INDEX_ENTRY.size)
    relative, position = _INDEX_ENTRY.unpack(entry)
    header = np.zeros(RECORD_BATCH_OVERHEAD, np.uint8)
    if not 0 < position <= log_size - len(header) or read_into(header, position) < len(header):
        return 0
    batch = BatchHeader.unpack(header.tobytes())
    return position if batch.magic == 2 and batch.last_offset == base_offset + relative else 0
