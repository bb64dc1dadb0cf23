"""Leader epochs: from which offset on each leader wrote, in memory and in `leader-epoch-checkpoint`.

A follower that was away asks its new leader for the end of the epoch in which it last wrote, and truncates to
that offset. So an epoch must be in the file before the first byte of its data is in the log: assigning writes
the file at once. Removing entries is not urgent: after a crash, loading a log again removes entries that its
offsets contradict.

Epochs and start offsets both ascend. The entries are one tuple that is replaced as a whole, so readers need
no lock. Kafka: LeaderEpochFileCache.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple

from stratalog.errors import DiskError, UsageError
from stratalog.files.disk import Path, changing
from stratalog.files.reading import DiskReader
from stratalog.log.checkpoint_file import (
    directory_exists,
    int32_field,
    int64_field,
    read_checkpoint,
    write_checkpoint,
)
from stratalog.log.scheduler import ScheduledTask

logger = logging.getLogger(__name__)

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class EpochEntry(NamedTuple):
    """An epoch, and the offset of the first record its leader wrote, or would write."""

    epoch: int
    start_offset: int


class EpochStitch:
    """Leader epochs from the file and from batches, without those outside the log.

    `has_grown`: a batch has added an epoch, so a broker would have written the file, even if no entry is
    left.
    """

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self.entries: list[EpochEntry] = list(entries)
        self.has_grown = False

    def add(self, starts: Iterable[tuple[int, int]]) -> None:
        """Add (epoch, base offset) of each batch that begins an epoch above the latest one.

        Kafka: LogSegment.recover
        """
        for epoch, start_offset in starts:
            if not self.entries or epoch > self.entries[-1].epoch:
                while self.entries and self.entries[-1].start_offset >= start_offset:
                    self.entries.pop()
                self.entries.append(EpochEntry(epoch, start_offset))
                self.has_grown = True

    def truncate_from_end(self, end_offset: int) -> None:
        while self.entries and self.entries[-1].start_offset >= end_offset:
            self.entries.pop()

    def truncate_from_start(self, start_offset: int) -> None:
        """Move the start of the epoch that covers an offset to that offset, and forget earlier epochs."""
        removed = [entry for entry in self.entries if entry.start_offset <= start_offset]
        if removed:
            kept = self.entries[len(removed) :]
            self.entries = [EpochEntry(removed[-1].epoch, start_offset), *kept]

    def clear(self) -> None:
        self.entries = []


class EpochEndOffset(NamedTuple):
    """Where an epoch ends (exclusive); -1 and -1 if that is not known."""

    epoch: int
    end_offset: int


class LeaderEpochFileCache:
    """The epochs of one log. `path` is the file, which is read at once and written when an entry changes.

    After a truncation, `flush` is passed to `schedule`, to be called soon; without `schedule` the caller
    flushes.
    """

    def __init__(
        self, disk: DiskReader, path: Path, *, schedule: Callable[[ScheduledTask], object] | None = None
    ) -> None:
        self._disk = disk
        self._path = path
        self._schedule = schedule
        self._changing = threading.Lock()
        self._writing = threading.Lock()
        self._stale = False
        self._is_given_up = False
        self._entries = read_epochs(disk, path)

    @property
    def path(self) -> Path:
        """The file that the entries are written to."""
        return self._path

    def move_to(self, path: Path) -> None:
        """Write to another file from now on: the log's directory was renamed."""
        with self._writing:
            self._path = path

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries as they are now, oldest first."""
        return self._entries

    @property
    def latest_epoch(self) -> int | None:
        """The epoch of the last leader, which may not have written anything yet."""
        entries = self._entries
        return entries[-1].epoch if entries else None

    @property
    def latest_entry(self) -> EpochEntry | None:
        entries = self._entries
        return entries[-1] if entries else None

    @property
    def earliest_entry(self) -> EpochEntry | None:
        entries = self._entries
        return entries[0] if entries else None

    def previous_epoch(self, epoch: int | None = None) -> int | None:
        """The epoch before the given one, or before the latest."""
        entry = self.previous_entry(epoch)
        return None if entry is None else entry.epoch

    def previous_entry(self, epoch: int | None = None) -> EpochEntry | None:
        """The entry before the given epoch, or before the latest."""
        entries = self._entries
        at = len(entries) - 1 if epoch is None else bisect_left(entries, epoch, key=_epoch)
        return entries[at - 1] if at > 0 else None

    def next_epoch(self, epoch: int) -> int | None:
        """The epoch after the given one."""
        entries = self._entries
        at = bisect_right(entries, epoch, key=_epoch)
        return entries[at].epoch if at < len(entries) else None

    def entry_of(self, epoch: int) -> EpochEntry | None:
        """The entry of exactly this epoch."""
        entries = self._entries
        at = bisect_left(entries, epoch, key=_epoch)
        return entries[at] if at < len(entries) and entries[at].epoch == epoch else None

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch in which this offset was, or will be, written; None before the first one."""
        entries = self._entries
        at = bisect_right(entries, offset, key=_start_offset)
        return entries[at - 1].epoch if at else None

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """The largest known epoch up to the given one, and the offset at which it ends.

        An epoch above all known ones gives (-1, -1), because this log does not know it. An epoch below all of
        them gives itself and the start of the first.
        """
        entries = self._entries
        at = bisect_right(entries, epoch, key=_epoch)  # the first entry with a higher epoch
        if epoch == UNDEFINED_EPOCH or not entries:
            return EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        if entries[-1].epoch == epoch:
            return EpochEndOffset(epoch, log_end_offset)
        if at == len(entries):
            return EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        return EpochEndOffset(entries[at - 1].epoch if at else epoch, entries[at].start_offset)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record that an epoch starts at an offset; True if that changed the entries, which are then on the
        device.

        A known epoch changes only to an earlier start. Entries that the new one contradicts are removed:
        those whose epoch is not lower, or whose start is not lower.
        """
        return self.assign_all([EpochEntry(epoch, start_offset)])

    def assign_all(self, entries: Iterable[EpochEntry]) -> bool:
        """As `assign` for each entry, with a single write of the file."""
        wanted = list(entries)
        for epoch, start_offset in wanted:
            if epoch < 0 or start_offset < 0:
                raise UsageError(f"epoch {epoch} at offset {start_offset}: neither of them can be negative.")
        with self._changing:
            before = self._entries
            for entry in wanted:
                self._assign(entry)
            changed = self._entries is not before
            self._stale |= changed
        if changed:
            self._write()
        return changed

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the epochs that start at `end_offset` or after it; a negative offset removes none.

        The file follows at the next `flush`.
        """
        with self._changing:
            entries = self._entries
            if end_offset < 0 or not entries or entries[-1].start_offset < end_offset:
                return
            self._entries = _without_end(entries, lambda entry: entry.start_offset >= end_offset)
            self._stale = True
        self._flush_soon()

    def truncate_from_start(self, start_offset: int) -> None:
        """Move the start of the epoch that covers `start_offset` to that offset, and remove earlier epochs.

        The file follows at the next `flush`.
        """
        with self._changing:
            entries = self._entries
            removed = next(
                (at for at, entry in enumerate(entries) if entry.start_offset > start_offset), len(entries)
            )
            if removed == 0:
                return
            first = EpochEntry(entries[removed - 1].epoch, start_offset)
            if removed == 1 and first == entries[0]:
                return  # nothing changes, as at nearly every start
            self._entries = (first, *entries[removed:])
            self._stale = True
        self._flush_soon()

    def clear_and_flush(self) -> None:
        """Remove all entries, from the file too."""
        self.clear()
        self._write()

    def clear(self) -> None:
        """Remove all entries from memory; the file follows at the next `flush`."""
        with self._changing:
            self._entries = ()
            self._stale = True

    def flush(self) -> None:
        """Write the file if it is out of date; a log directory that was removed meanwhile is not an error."""
        if not self._stale or self._is_given_up:
            return
        try:
            self._write()
        except DiskError:
            if directory_exists(self._disk, self._path):
                raise

    def give_up(self) -> None:
        """Stop writing the file: the log was closed, and another program may have it open by now."""
        self._is_given_up = True

    def _assign(self, entry: EpochEntry) -> None:
        entries = self._entries
        if entries and entries[-1].epoch == entry.epoch and entries[-1].start_offset <= entry.start_offset:
            return
        kept = _without_end(
            entries, lambda old: old.epoch >= entry.epoch or old.start_offset >= entry.start_offset
        )
        removed = entries[len(kept) :]
        # A single removed entry with the same start is of a leader that wrote nothing: no warning is needed.
        if len(removed) > 1 or (removed and removed[0].start_offset != entry.start_offset):
            logger.warning(
                "%s: %s contradicts older entries, which are removed: %s", self._path, entry, list(removed)
            )
        self._entries = (*kept, entry)

    def _flush_soon(self) -> None:
        if self._schedule is not None:
            self._schedule(self.flush)

    def _write(self) -> None:
        # The entries are read under the lock: an older state never replaces a newer one.
        with self._writing:
            with self._changing:
                entries = self._entries
                self._stale = False
            try:
                lines = [f"{entry.epoch} {entry.start_offset}" for entry in entries]
                write_checkpoint(changing(self._disk), self._path, lines)
            except DiskError:
                self._stale = True
                raise


def read_epochs(disk: DiskReader, path: Path) -> tuple[EpochEntry, ...]:
    """The entries of the file, oldest first; CorruptCheckpointError if it cannot be parsed."""
    return _in_order(read_checkpoint(disk, path, _parse_entry))


def _epoch(entry: EpochEntry) -> int:
    return entry.epoch


def _start_offset(entry: EpochEntry) -> int:
    return entry.start_offset


def _in_order(entries: list[EpochEntry]) -> tuple[EpochEntry, ...]:
    """Sorted by epoch; the later of two entries of one epoch wins, as in Kafka's sorted map."""
    return tuple(sorted({entry.epoch: entry for entry in entries}.values()))


def _without_end(
    entries: tuple[EpochEntry, ...], contradicted: Callable[[EpochEntry], bool]
) -> tuple[EpochEntry, ...]:
    kept = len(entries)
    while kept and contradicted(entries[kept - 1]):
        kept -= 1
    return entries[:kept]


def _parse_entry(fields: list[str]) -> EpochEntry | None:
    if len(fields) != 2:
        return None
    entry = EpochEntry(int32_field(fields[0]), int64_field(fields[1]))
    if entry.epoch < 0 or entry.start_offset < 0:
        raise ValueError("an epoch and its offset cannot be negative.")
    return entry
