"""Closes a log: cleanly, or saving what can be saved after a failure. Kafka: UnifiedLog.close"""

from __future__ import annotations

import logging

from stratalog.errors import DiskError
from stratalog.log.flusher import Flusher
from stratalog.log.parts import LogParts

logger = logging.getLogger(__name__)


class Closer:
    """Ends the use of a log, once. The caller holds both locks.

    After a clean close all records, the producers' snapshot at the end and every name are on the device: a
    clean-shutdown file may be written afterwards.
    """

    __slots__ = ("_flusher", "_has_saved", "_parts")

    def __init__(self, parts: LogParts, flusher: Flusher) -> None:
        self._parts, self._flusher = parts, flusher
        self._has_saved = False  # after a failure, whether all records are nevertheless on the device

    @property
    def is_saved(self) -> bool:
        """Whether every appended record is on the device, even if the log has failed since."""
        return self._has_saved or self._flusher.recovery_point >= self._parts.marks.end.offset

    def close(self) -> None:
        """Close cleanly, or without writing if that is impossible.

        Raises the error of a log that has failed. A log that may not be changed (`LogGuard.refusal`) is
        closed without an error.
        """
        guard = self._parts.guard
        if guard.is_closed:
            return
        if guard.refusal is not None:
            self.close_handlers()
            return
        try:
            if guard.failure is not None:
                raise guard.failure
            self._close()
        except DiskError:
            self._save_records()
            self.close_handlers()
            raise

    def close_handlers(self) -> None:
        """Close without writing anything: the disk has failed, or the log must not be changed."""
        parts = self._parts
        parts.guard.is_closed = True
        parts.epochs.give_up()  # a scheduled flush must not write them
        for segment in parts.segments:
            segment.close_handlers()
        parts.folder.disk.release(parts.folder.path)

    def _close(self) -> None:
        parts, folder = self._parts, self._parts.folder
        with parts.guard.failing():
            # One more than the end, so that the files of an empty active segment are synced too.
            self._flusher.flush_up_to(parts.marks.end.offset + 1)
            parts.epochs.flush()
            parts.producers.take_snapshot()
            for segment in parts.segments:
                segment.close()
            # A checkpoint that is written afterwards also promises that the names are on the device.
            folder.disk.sync_directory(folder.path)
        parts.guard.is_closed = True
        folder.disk.release(folder.path)

    def _save_records(self) -> None:
        """After a failure: sync all appended records, if no sync has failed before.

        A sync that succeeds after an earlier one has failed proves nothing: the system has dropped the pages
        that it could not write.
        """
        folder = self._parts.folder
        end_offset = self._parts.marks.end.offset
        unsaved = self._parts.segments.range(self._flusher.recovery_point, end_offset)
        if self.is_saved or any(segment.has_failed_sync for segment in unsaved):
            return
        try:
            for segment in unsaved:
                segment.sync_log()
            folder.disk.sync_directory(folder.path)
        except DiskError as error:
            logger.warning(
                "%s is closed, but some of its data may not be on the device: %s", folder.path, error
            )
        else:
            self._has_saved = True
