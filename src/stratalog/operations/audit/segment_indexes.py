"""Reads the indexes of a segment for its audit; an index that is missing or unreadable is a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stratalog.errors import CorruptIndexError
from stratalog.files.entries import ExpectedFile
from stratalog.files.names import FileKind, segment_file_name
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.limits import INT32_MAX, INT64_MAX
from stratalog.operations.audit.index_entries import OffsetEntries, TimeEntries
from stratalog.operations.audit.kinds import AuditKind
from stratalog.operations.audit.spots import Spot, Spots
from stratalog.operations.words import sentence
from stratalog.segment.offset_index import OffsetIndex
from stratalog.segment.time_index import TimeIndex
from stratalog.segment.txn_index import ENTRY_SIZE as TXN_ENTRY_SIZE
from stratalog.segment.txn_index import AbortedTxn, TransactionIndex

if TYPE_CHECKING:
    from stratalog.operations.audit.segment_task import AuditTask


class SegmentIndexes:
    """The indexes of a segment as they were before its log was read."""

    def __init__(self, disk: DiskReader, task: AuditTask, spots: Spots) -> None:
        self._disk, self._task, self._spots = disk, task, spots
        self.offsets = self._offset_entries()
        self.times = self._time_entries()
        self.aborted = self._aborted()

    def _offset_entries(self) -> OffsetEntries | None:
        name = segment_file_name(self._task.base_offset, FileKind.OFFSET_INDEX)
        path = join_path(self._task.directory, name)
        index = OffsetIndex(
            self._disk, path, self._task.base_offset, max_size=0, identity=self._identity(path)
        )
        try:
            if not index.exists:
                self._missing(AuditKind.MISSING_INDEX, name)
                return None
            index.sanity_check(INT32_MAX)
            entries = index.entries()
            offsets, positions = (column[: entries.count].astype(np.int64) for column in entries.columns)
            first = int(np.searchsorted(positions, self._task.start_position))
            return OffsetEntries(
                name, offsets[first:] + self._task.base_offset, positions[first:], self._spots
            )
        except CorruptIndexError as error:
            self._spots.add(Spot(AuditKind.UNREADABLE_INDEX, name, sentence(error.reason)))
            return None
        finally:
            index.forget()

    def _time_entries(self) -> TimeEntries | None:
        name = segment_file_name(self._task.base_offset, FileKind.TIME_INDEX)
        path = join_path(self._task.directory, name)
        index = TimeIndex(self._disk, path, self._task.base_offset, max_size=0, identity=self._identity(path))
        try:
            if not index.exists:
                self._missing(AuditKind.MISSING_TIME_INDEX, name)
                return None
            index.sanity_check(INT64_MAX)
            entries = index.entries()
            stamps, offsets = (column[: entries.count].astype(np.int64) for column in entries.columns)
            return TimeEntries(name, stamps, offsets + self._task.base_offset, self._spots)
        except CorruptIndexError as error:
            self._spots.add(Spot(AuditKind.UNREADABLE_TIME_INDEX, name, sentence(error.reason)))
            return None
        finally:
            index.forget()

    def _aborted(self) -> tuple[AbortedTxn, ...] | None:
        name = segment_file_name(self._task.base_offset, FileKind.TXN_INDEX)
        path = join_path(self._task.directory, name)
        index = TransactionIndex(self._disk, path, self._task.base_offset, identity=self._identity(path))
        try:
            if not index.exists:
                return ()
            index.sanity_check()
            aborted = tuple(index.all_aborted())
            status = self._disk.status(path)
            torn_size = 0 if status is None else status.size % TXN_ENTRY_SIZE
            if torn_size:
                words = (
                    f"Its last entry is cut off: only {torn_size} of {TXN_ENTRY_SIZE} bytes of it are there."
                )
                position, size = len(aborted) * TXN_ENTRY_SIZE, torn_size
                self._spots.add(Spot(AuditKind.TORN_TXN_INDEX, name, words, position=position, size=size))
            return aborted
        except CorruptIndexError as error:
            self._spots.add(Spot(AuditKind.UNREADABLE_TXN_INDEX, name, sentence(error.reason)))
            return None
        finally:
            index.forget()

    def _identity(self, path: str) -> ExpectedFile | None:
        """The file that has this name now: a file that is kept open may have been replaced."""
        status = self._disk.status(path)
        return None if status is None else ExpectedFile(status.id)

    def _missing(self, kind: AuditKind, name: str) -> None:
        if self._task.size:
            self._spots.add(Spot(kind, name, "The file is missing."))
