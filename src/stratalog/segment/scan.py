"""`scan_segment`: everything that recovery, an audit or Spark wants to know of a segment, from one reading.

It reads each byte once, changes nothing and needs only the .log file, so the segments of one log can be
scanned side by side. What depends on the segments before it (which transactions are open, which epoch is
known) is told so that it can be put together afterwards, in the order of the segments.
Kafka: LogSegment.recover
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from stratalog.errors import InvalidRecordError
from stratalog.files.disk import Disk, Path
from stratalog.records.columns import wrong_crc
from stratalog.records.kernels import index as indexing
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.walk import BatchTable
from stratalog.records.walk import Stop, explain_stop
from stratalog.segment.headers import Part, walk_file
from stratalog.segment.offset_index import to_entries as to_offset_entries
from stratalog.segment.producers import ProducerScan, ScannedProducer, TxnEvent
from stratalog.segment.time_index import NO_TIMESTAMP
from stratalog.segment.time_index import to_entries as to_time_entries

DEFAULT_INDEX_INTERVAL = 4096
_UNLIMITED = 2**31


class ScanStop(Enum):
    """Why a scan ended where it did. All but END say that bytes behind that are not believed."""

    END = "every byte belongs to a good batch"
    TORN_TAIL = "the last batch is cut off"
    BAD_LENGTH = "a length that no batch can have"
    BAD_MAGIC = "a magic that Kafka has never written"
    WRONG_CRC = "a checksum that does not hold"
    INVALID_MARKER = "a control batch that is no transaction marker"
    OFFSET_OVERFLOW = "an offset too far from the segment's base: the segment must be split"
    INVALID_OFFSET = "offsets that go backwards where an index entry is due"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentScan:
    """What a segment is, up to the first thing in it that is wrong.

    `offset_index` and `time_index` are the bytes of the .index and .timeindex that it has when closed.
    `reason` says in a sentence, with numbers, why the scan stopped; it is empty at the end of the file. A bad
    marker's batch is still in `valid_size`, as Kafka keeps it and cuts behind it.
    """

    path: str
    base_offset: int
    file_size: int
    valid_size: int
    stop: ScanStop
    reason: str
    batches_count: int
    next_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    offset_index: bytes
    time_index: bytes
    epoch_starts: tuple[tuple[int, int], ...]
    producers: tuple[ScannedProducer, ...]
    transactions: tuple[TxnEvent, ...]


def scan_segment(
    disk: Disk,
    path: Path,
    base_offset: int,
    *,
    index_interval_bytes: int = DEFAULT_INDEX_INTERVAL,
    end_position: int | None = None,
) -> SegmentScan:
    """Scan a .log file, or its first `end_position` bytes. DiskError if it cannot be read.

    Memory is one chunk of the file, or its largest batch, and what the result holds. A file that grows
    meanwhile is read up to the size it had at first.
    """
    with disk.open_read(path) as file:
        size = disk.size(file)
        scan = _Scan(base_offset, index_interval_bytes)
        end = size if end_position is None else min(end_position, size)
        for part in walk_file(lambda buffer, position: disk.read_into(file, buffer, position), 0, end):
            if not scan.add(part, end):
                break
    return scan.result(file.path, size)


class _Scan:
    def __init__(self, base_offset: int, index_interval: int) -> None:
        self._base_offset = base_offset
        self._index_interval = index_interval
        self._producers = ProducerScan()
        self._progress = np.zeros(1, indexing.PROGRESS)
        self._progress[0] = (0, NO_TIMESTAMP, 0, -1, NO_TIMESTAMP, -1)
        self._offset_index, self._time_index = bytearray(), bytearray()
        self._valid_size = self._batches_count = 0
        self._next_offset = base_offset
        self._stop, self._reason = ScanStop.END, ""

    def add(self, part: Part, end: int) -> bool:
        """Take in the next part of the file; False where nothing behind it is believed."""
        headers = part.walk.headers
        bad = np.flatnonzero(~headers["valid"])
        good = headers[: int(bad[0])] if bad.size else headers
        if len(good) and not self._add_batches(part.data, good, part.position):
            return False
        if bad.size:
            return self._ends(ScanStop.WRONG_CRC, wrong_crc(part.data, headers[int(bad[0])]).reason)
        stop = part.walk.stop
        if part.is_last and stop not in (Stop.END, Stop.TABLE_FULL):
            at = part.walk.next_position
            reason = explain_stop(part.data, at, at + end - part.position - at, stop)
            return self._ends(_STOPS[stop], reason)
        return True

    def _add_batches(self, data: Bytes, headers: BatchTable, position: int) -> bool:
        before = self._progress.copy()
        done, entries, outcome = self._index(headers, position)
        bad_marker = None
        try:
            self._producers.add(data, headers[:done])
        except InvalidRecordError as error:
            bad_marker = error
            # The batch itself stays, what is behind it does not: as if the part ended with it.
            kept = int(np.searchsorted(headers["position"][:done], error.position, "right"))
            if kept < done:
                self._progress = before
                done, entries, outcome = self._index(headers[:kept], position)
        self._offset_index += to_offset_entries(entries[0]).tobytes()
        self._time_index += to_time_entries(entries[1]).tobytes()
        if done:
            last = headers[done - 1]
            self._batches_count += done
            self._next_offset = int(last["last_offset"]) + 1
            self._valid_size = position + int(last["position"]) + int(last["size"])
        if bad_marker is not None:
            return self._ends(ScanStop.INVALID_MARKER, bad_marker.reason)
        if outcome == indexing.INDEXED:
            return True
        offset = int(headers[done]["last_offset"])
        if outcome == indexing.OFFSET_OVERFLOW:
            reason = f"offset {offset} is not within 2^31 - 1 of the segment's base, {self._base_offset}."
            return self._ends(ScanStop.OFFSET_OVERFLOW, reason)
        last_offset = self._base_offset + int(self._progress[0]["last_offset"])
        return self._ends(ScanStop.INVALID_OFFSET, f"offset {offset} comes behind offset {last_offset}.")

    def _index(
        self, headers: BatchTable, position: int
    ) -> tuple[int, tuple[indexing.Entries, indexing.Entries], int]:
        offsets, times = np.empty((len(headers), 2), np.int64), np.empty((len(headers), 2), np.int64)
        done, offset_count, time_count, outcome = indexing.index_batches(
            headers,
            position,
            self._base_offset,
            self._index_interval,
            (_UNLIMITED, _UNLIMITED),
            self._progress,
            offsets,
            times,
        )
        return done, (offsets[:offset_count], times[:time_count]), outcome

    def _ends(self, stop: ScanStop, reason: str) -> bool:
        self._stop, self._reason = stop, reason
        return False

    def result(self, path: str, file_size: int) -> SegmentScan:
        _, timestamp, offset, _, last_timestamp, _ = self._progress[0].item()
        if timestamp > last_timestamp:
            # Rolling or closing the segment adds its largest timestamp, whether an entry is due or not.
            last = np.array([[timestamp, offset]], np.int64)
            self._time_index += to_time_entries(last).tobytes()
        return SegmentScan(
            path=path,
            base_offset=self._base_offset,
            file_size=file_size,
            valid_size=self._valid_size,
            stop=self._stop,
            reason=self._reason,
            batches_count=self._batches_count,
            next_offset=self._next_offset,
            max_timestamp=timestamp,
            offset_of_max_timestamp=self._base_offset + offset,
            offset_index=bytes(self._offset_index),
            time_index=bytes(self._time_index),
            epoch_starts=self._producers.epoch_starts(),
            producers=self._producers.producers(),
            transactions=self._producers.events(),
        )


_STOPS = {
    Stop.TORN_TAIL: ScanStop.TORN_TAIL,
    Stop.BAD_LENGTH: ScanStop.BAD_LENGTH,
    Stop.BAD_MAGIC: ScanStop.BAD_MAGIC,
}
