"""The files of one partition's directory from which records are erased, and how each is handled.

A broker finishes a swap in the directories that it loads, and so does our recovery. Our recovery leaves stray
directories alone, and perhaps no broker ever loads them again. So a swap that is interrupted there may stay
unfinished, and must do no harm at any step. Files renamed to `.deleted` and directories renamed to `-delete`
are not rewritten: a log there that holds a selected record, or cannot be read, is deleted at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.errors import DiskError, InvalidNameError, NeedsRecoveryError, SegmentOffsetOverflowError
from stratalog.files.disk import Disk
from stratalog.files.entries import EntryKind
from stratalog.files.names import (
    DirectoryState,
    FileKind,
    FileState,
    SegmentFile,
    parse_segment_file,
    segment_file_name,
)
from stratalog.files.paths import join_path, last_name
from stratalog.files.reading import DiskReader
from stratalog.limits import INT32_MAX
from stratalog.log.cleaning.erase import (
    BeforeSwap,
    FileOfBatches,
    Rewritten,
    ToErase,
    What,
    erase_from_segment,
    find_records,
    gone_file,
    swap_in_log,
    swap_in_stray,
)
from stratalog.log.cleaning.erase_selection import Found, Matcher
from stratalog.log.segments import LogSegments
from stratalog.segment.segment import LogSegment

_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFiles:
    """The directory of a partition, and what is needed to read and rewrite its files."""

    disk: Disk
    directory: str
    state: DirectoryState
    config: LogConfig
    clock: Clock
    matcher: Matcher

    def look(self, reader: DiskReader, searching: Matcher) -> Iterator[ToErase | Found]:
        """A `ToErase` for each file to erase from; for a segment without a record to erase, its `Found`.

        A `Found` also counts the markers at the named offsets, which are not erased.

        Files are read through `reader` and searched by `searching`, which belong to the thread that looks.
        Raises CorruptRecordError if a log cannot be read, NeedsRecoveryError if a swap was interrupted,
        InvalidNameError if a file would be mistaken for another log, DiskError if a file is a link, and
        SegmentOffsetOverflowError if a segment must be split first.
        """
        files = self._logs()
        live = [file for file in files if file.state is FileState.LIVE]
        if self.state is DirectoryState.DELETE:
            live = []
        # Files that are not live come first: a swap renames a segment to a name that one of them may have.
        for file in files:
            if file in live:
                continue
            if file.state in (FileState.CLEANED, FileState.SWAP) and not self._is_left_alone:
                raise NeedsRecoveryError(
                    self.directory, f"{file.name} is left over from a cleaning or split that was interrupted"
                )
            yield from self._look_at_doomed(reader, searching, file)
        yield from self._look_at_segments(reader, searching, [file.offset for file in live])

    @property
    def _is_left_alone(self) -> bool:
        """Whether our recovery leaves this directory alone: no swap is finished, no leftovers are removed."""
        return self.state in (DirectoryState.DELETE, DirectoryState.STRAY)

    def _logs(self) -> list[SegmentFile]:
        logs = []
        for entry in self.disk.list_directory(self.directory):
            file = parse_segment_file(entry.name) if entry.kind is EntryKind.FILE else None
            if file is None or file.kind is not FileKind.LOG:
                continue
            if entry.is_symlink:
                raise DiskError(
                    self._path(entry.name),
                    "it is a symbolic link: the file that it points to would keep the records.",
                )
            if entry.name != file.name:
                # A broker takes only the offset from this name, and opens the file whose name has all twenty
                # digits of that offset.
                raise InvalidNameError(
                    self._name(entry.name),
                    f"it would be mistaken for {file.name}, and its records would not be searched. Move it "
                    "away, or delete it: it may hold these records too.",
                )
            logs.append(file)
        return logs

    def _look_at_segments(
        self, reader: DiskReader, searching: Matcher, bases: list[int]
    ) -> Iterator[ToErase | Found]:
        selection = self.matcher.selection
        opened = [LogSegment.open(self.disk, self.directory, base, self.config, self.clock) for base in bases]
        segments = LogSegments(opened)
        for segment, end in zip_longest(opened, bases[1:]):
            if not selection.may_reach(segment.base_offset, end):
                continue
            found = find_records(FileOfBatches(reader, segment.log_path, segment.size), searching)
            if found.problem is not None:
                raise found.problem
            if not found.records_count:
                yield found
                continue
            if found.last_offset - segment.base_offset > INT32_MAX:
                # This is checked before any change: one segment cannot hold offsets that far apart.
                raise SegmentOffsetOverflowError(segment.log_path, segment.base_offset, found.last_offset)
            yield ToErase(
                file=self._name(segment.log_path),
                what=What.STRAY if self._is_left_alone else What.SEGMENT,
                found=found,
                size=segment.size,
                is_gone=False,
                erase=partial(self._erase_segment, segments, segment),
            )

    def _look_at_doomed(self, reader: DiskReader, searching: Matcher, file: SegmentFile) -> Iterator[ToErase]:
        path = self._path(file.name)
        if not self.matcher.selection.may_reach(file.offset, None):
            return
        found = find_records(FileOfBatches(reader, path), searching)
        if found.records_count or found.problem is not None:
            yield ToErase(
                file=self._name(path),
                what=What.DELETED,
                found=found,
                size=self.disk.size(path),
                is_gone=True,
                erase=partial(self._erase_doomed, file, found),
            )

    def _erase_segment(
        self, segments: LogSegments[LogSegment], segment: LogSegment, before_swap: BeforeSwap
    ) -> Rewritten:
        swap = (
            partial(swap_in_stray, self.disk, segment.reader)
            if self._is_left_alone
            else partial(swap_in_log, self.disk, segments, segment.reader)
        )
        return erase_from_segment(
            segment.reader,
            self.matcher,
            disk=self.disk,
            config=self.config,
            clock=self.clock,
            before_swap=before_swap,
            swap=swap,
        )

    def _erase_doomed(self, file: SegmentFile, found: Found, before_swap: BeforeSwap) -> Rewritten:
        gone = gone_file(FileOfBatches(self.disk, self._path(file.name)), found)
        before_swap(gone)
        for kind in (FileKind.LOG, *_INDEXES):
            self.disk.delete(self._path(segment_file_name(file.offset, kind, file.state)))
        self.disk.sync_directory(self.directory)
        return gone

    def _path(self, name: str) -> str:
        return join_path(self.directory, name)

    def _name(self, path: str) -> str:
        """The name in reports and in `stratalog-erased.jsonl`: directory and file."""
        return f"{last_name(self.directory)}/{last_name(path)}"
