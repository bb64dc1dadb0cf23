"""Reads the dirty part of a log backwards, so that it need not be read again for most of what stays.

Read forwards, a record is known to be the newest of its key only at the end of the first pass. Read
backwards, it is known at once: the first record of a key that is seen is the newest. So each run is filtered
while it is still in memory, and what stays of it is put into a temporary file, the spool. The second pass
then copies the spool, run by run in the log's order, and decompresses nothing. Segments are still replaced
from the first to the last: otherwise a crash could leave old records of a key whose tombstone is gone.

That is not possible for every log. Whether a transaction was aborted and whether its marker is still needed
depend on what came before, a map that becomes full must hold the first records and not the last, and the
offset indexes must show where batches start. `NewestFirst.read` then returns None, and the log is read
forwards as if nothing had happened. The spool takes at most the size of one segment, and at most a quarter
of the free space. It leaves room for two segments, because the new ones need it. If what stays of a segment
does not fit into the spool as a whole, this segment and all older ones are read again in the second pass. If
the spool cannot be read back (`LostSpoolError`), or if the new segments need its room after all, it is given
up, and the originals are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stratalog.errors import CorruptIndexError, CorruptRecordError, DiskError
from stratalog.files.disk import Disk
from stratalog.files.reading import DiskReader
from stratalog.log.cleaning.filter import JudgedRun, LastRecord, OutputMemory, Rules, RunFilter
from stratalog.log.cleaning.offset_map import OffsetMap
from stratalog.log.cleaning.output import CleanedOutput
from stratalog.log.cleaning.parts import NotBackwardsError
from stratalog.log.cleaning.runs import DecodedRun, RunReader
from stratalog.log.cleaning.spool import LostSpoolError, Spool, SpoolPlace
from stratalog.log.cleaning.transactions import CleanedTransactions
from stratalog.records.kernels.crc32c import crc32c
from stratalog.records.kernels.offset_map import ALL_STORED, FULL
from stratalog.segment.headers import CHUNK_SIZE
from stratalog.segment.segment_reader import SegmentReader

if TYPE_CHECKING:
    from stratalog.log.cleaning.clean import DirtyLog


class SpooledSegment(NamedTuple):
    """What stays of a segment, from its last run to its first, and what was counted when it was filtered."""

    places: list[SpoolPlace]
    records_read: int
    records_without_key: int
    records_written: int


class Spooled(NamedTuple):
    """The result of reading backwards: segments by base offset, and what the first pass has read."""

    spool: Spool
    segments: dict[int, SpooledSegment]
    bytes_read: int
    records_read: int

    def runs(self, segment: SpooledSegment, memory: Callable[[], OutputMemory]) -> Iterator[JudgedRun]:
        """What stays of a segment, in order; several runs of the first pass become one."""
        joined: list[SpoolPlace] = []
        size = 0
        for place in reversed(segment.places):
            size += place.size
            if joined and size > CHUNK_SIZE:
                yield self._read(joined, memory())
                joined, size = [], place.size
            joined.append(place)
        if joined:
            yield self._read(joined, memory())

    def _read(self, places: list[SpoolPlace], memory: OutputMemory) -> JudgedRun:
        batches_count = sum(place.batches_count for place in places)
        memory.reserve(batches_count, sum(place.size for place in places))
        at = 0
        for place in places:
            self.spool.read_into(memory.out[at : at + place.size], place.position)
            # The file is never synced, so nobody is told if the device refuses a write later.
            if crc32c(memory.out, at, at + place.size) != place.checksum:
                raise LostSpoolError
            at += place.size
        return JudgedRun(
            memory=memory,
            size=at,
            pending_count=0,
            records_read=0,
            records_without_key=0,
            records_written=0,
            keep=_NO_ROWS,
            is_dropped=_NO_ROWS,
        )


_NO_ROWS = np.empty(0, np.bool_)


class NewestFirst:
    """Reads a dirty part backwards. `rules_of` gives the rules for each of its segments.

    `on_run` is called for each run with the bytes read, and those newly written to the spool.
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        reader: RunReader,
        last_records: Mapping[int, LastRecord],
        rules_of: Callable[[SegmentReader], Rules],
        on_run: Callable[[int, int], object],
    ) -> None:
        self._map, self._reader, self._rules_of, self._on_run = offset_map, reader, rules_of, on_run
        self._filter = RunFilter(offset_map, last_records)
        self._transactions = CleanedTransactions()
        self._bytes_read = self._records_read = 0
        self._is_map_full = False

    def read(self, disk: Disk, log: DirtyLog, dirty: Sequence[SegmentReader]) -> Spooled | None:
        """Fill the empty map with the keys of these segments, and a spool with what stays of them.

        None if they must be read forwards; the map is empty then. The caller closes the spool.
        """
        start, end = log.first_dirty_offset, log.first_uncleanable_offset
        if self._map.too_small_for == end:
            return None
        directory = log.cleaned_directory or dirty[0].directory
        try:
            spool = Spool(disk, directory, log.config.segment_size)
        except DiskError:
            return None
        spooled = None
        try:
            if not self._map.go_backwards(start, end):
                raise NotBackwardsError
            spooled = self._read(disk, dirty, start, spool)
        except (NotBackwardsError, CorruptRecordError, CorruptIndexError):
            self._map.clear()
            if self._is_map_full:
                self._map.too_small_for = end
        finally:
            if spooled is None:
                spool.close()
        return spooled

    def _read(
        self, disk: DiskReader, dirty: Sequence[SegmentReader], start_offset: int, spool: Spool
    ) -> Spooled:
        found: dict[int, SpooledSegment] = {}
        for segment in reversed(dirty):
            # A segment that begins in the clean part also has records that are not in the map.
            if segment.base_offset < start_offset or spool.is_full:
                self._read_keys(disk, segment, start_offset)
            elif (kept := self._read_segment(disk, segment, spool)) is not None:
                found[segment.base_offset] = kept
        return Spooled(spool, {} if spool.is_lost else found, self._bytes_read, self._records_read)

    def _read_keys(self, disk: DiskReader, segment: SegmentReader, start_offset: int) -> None:
        is_whole = segment.base_offset >= start_offset
        position = 0 if is_whole else segment.offset_index.lookup(start_offset).position
        with closing(self._runs(disk, segment, position)) as runs:
            for run in runs:
                self._on_run(run.size, 0)

    def _read_segment(self, disk: DiskReader, segment: SegmentReader, spool: Spool) -> SpooledSegment | None:
        """Filter a segment into the spool; None if there is no room for it."""
        rules = self._rules_of(segment)
        records_read = without_key = written = 0
        output = CleanedOutput(spool, is_behind=segment.size > CHUNK_SIZE)
        try:
            with output, closing(self._runs(disk, segment, 0)) as runs:
                for run in runs:
                    if len(run.rows) and int(run.rows["offset"][0]) < segment.base_offset:
                        raise NotBackwardsError
                    # The map's bits for these records are final, so they are not looked up by their hashes.
                    noted = run._replace(hashes=run.hashes[:0])
                    judged = self._filter.judge(noted, self._transactions, rules, output.memory())
                    records_read += judged.records_read
                    without_key += judged.records_without_key
                    written += judged.records_written
                    output.put(judged, ())
                    self._on_run(run.size, output.newly_written())
            self._on_run(0, output.newly_written())  # what the thread has written since
        finally:
            output.stop()  # Ctrl-C may come while the context is entered or left
        places = spool.end_segment()
        return None if places is None else SpooledSegment(places, records_read, without_key, written)

    def _runs(
        self, disk: DiskReader, segment: SegmentReader, position: int
    ) -> Generator[DecodedRun, None, None]:
        """The runs of a segment, from the last to the first, each after its keys are put into the map."""
        try:
            entries = segment.offset_index.entries()
            opened = disk.open_read(segment.log_path)
        except DiskError as error:
            # Retention may have renamed the segment meanwhile; reading forwards allows for that.
            raise NotBackwardsError from error
        starts = entries.columns[1][: entries.count].tolist()
        with (
            opened as file,
            self._reader.read_backwards(segment, position, starts, file.expect_read) as runs,
        ):
            for run in runs:
                outcome = self._map.put_newest(run.batches, run.rows, run.hashes)
                if outcome != ALL_STORED:
                    self._is_map_full = outcome == FULL
                    raise NotBackwardsError
                self._bytes_read += run.size
                self._records_read += len(run.rows)
                yield run
