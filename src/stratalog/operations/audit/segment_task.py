"""Audits one segment in one pass: checks bytes, compares batches with each other and with the indexes.

A task needs only the files of its segment, so the segments of one log can be audited in parallel, on threads
or on executors. Results that depend on earlier segments are returned in a form that can be combined
afterwards (`partition.py`). The indexes are read before the log: a broker that appends meanwhile writes to
the log first, so no entry can point past the end that the task sees.
"""

from __future__ import annotations

import errno
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from stratalog.errors import CorruptRecordError, DiskError, InvalidRecordError
from stratalog.files.entries import FileId
from stratalog.files.names import FileKind, segment_file_name
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.limits import INT64_MAX
from stratalog.log.log_end import only_zeros
from stratalog.operations.audit.ahead import AheadRows, is_far, is_followed_by_lower
from stratalog.operations.audit.coordinated import CoordinatedTxn, TransactionStates
from stratalog.operations.audit.deep import check_records
from stratalog.operations.audit.kinds import AuditKind
from stratalog.operations.audit.rows import RowChecks
from stratalog.operations.audit.segment_indexes import SegmentIndexes
from stratalog.operations.audit.spots import Spot, Spots
from stratalog.operations.audit.usual_parts import UsualParts, memory
from stratalog.operations.words import sentence
from stratalog.records.columns import ColumnReader
from stratalog.records.internal_topics import CLUSTER_METADATA, TRANSACTION_STATE
from stratalog.records.kernels import scan as gathering
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.walk import BatchTable
from stratalog.records.walk import Walk, WalkStop, explain_stop, walk_batches, wrong_crc
from stratalog.segment.headers import Part, ReadInto, walk_file
from stratalog.segment.producers import ProducerScan
from stratalog.segment.resuming import search_batch
from stratalog.segment.scan import ScanStop, SegmentScan
from stratalog.segment.txn_index import AbortedTxn

MAGIC_V2 = 2
_MOST_TRIES = 5
_KINDS = {
    WalkStop.TORN_TAIL: AuditKind.TORN_TAIL,
    WalkStop.BAD_LENGTH: AuditKind.BAD_LENGTH,
    WalkStop.BAD_MAGIC: AuditKind.BAD_MAGIC,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTask:
    """One segment. `next_base` is None for the last one, which may still grow unless `was_closed`.

    `start_position`, `start_offset` and `start_digest` are where an earlier audit ended, if this one reads
    only what is new.
    """

    directory: str
    topic: str
    base_offset: int
    size: int
    next_base: int | None
    was_closed: bool
    now_ms: int
    is_deep: bool = False
    start_position: int = 0
    start_offset: int | None = None
    start_digest: int = 0

    @property
    def path(self) -> str:
        return join_path(self.directory, segment_file_name(self.base_offset, FileKind.LOG))


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedSegment:
    """The result of reading a segment once.

    `scan` has its producers, transactions and epochs. `aborted` are the entries of its .txnindex, None if
    that cannot be read. `coordinated` has the states in a segment of __transaction_state. `good_end` is the
    byte up to which there is no damage, and `digest` a checksum of the checksums up to there.
    """

    base_offset: int
    size: int
    read_size: int
    good_end: int
    digest: int
    records_count: int
    codecs: tuple[str, ...]
    first_timestamp: int
    first_offset: int | None
    last_offset: int
    gaps: tuple[tuple[int, int], ...]
    gaps_count: int
    is_compacted: bool
    has_damage: bool
    scan: SegmentScan
    aborted: tuple[AbortedTxn, ...] | None
    spots: tuple[Spot, ...]
    coordinated: tuple[CoordinatedTxn, ...] = ()


def audit_segment(disk: DiskReader, task: AuditTask) -> AuditedSegment:
    """Read a segment and its indexes. DiskError if the log cannot be read.

    A cleaner replaces log and indexes one after the other. So a finding may come from a log and an index that
    do not belong together. If there is a finding, and one of the files was replaced meanwhile, all are read
    again, at most `_MOST_TRIES` times in all.
    """
    for tries_left in reversed(range(_MOST_TRIES)):
        before = _files(disk, task)
        try:
            found = _read_once(disk, task)
        except DiskError as error:
            if error.errno != errno.ENOENT or not tries_left:
                raise
            continue
        if task.was_closed or not found.spots or _files(disk, task) == before:
            break
    return found


def _files(disk: DiskReader, task: AuditTask) -> list[FileId | None]:
    """Which files have the names of this segment now."""
    kinds = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
    paths = [join_path(task.directory, segment_file_name(task.base_offset, kind)) for kind in kinds]
    return [None if (status := disk.status(path)) is None else status.id for path in paths]


def _read_once(disk: DiskReader, task: AuditTask, usual_end: int = INT64_MAX) -> AuditedSegment:
    spots = Spots()
    indexes = SegmentIndexes(disk, task, spots)
    with disk.open_read(task.path) as file:
        look = _Look(task, indexes, spots, disk.size(file), partial(disk.read_into, file), usual_end)
        try:
            look.read()
            return look.result()
        except _UsualTooFarError as error:
            usual_end = error.position
    return _read_once(disk, task, usual_end)


class _UsualTooFarError(Exception):
    """Parts from this position on were taken as usual, but a batch in them may be ahead of later batches."""

    def __init__(self, position: int) -> None:
        self.position = position


class _Look:
    """Reads a .log from start to end, also after damage. Parts from `usual_end` on get the slow form."""

    def __init__(
        self,
        task: AuditTask,
        indexes: SegmentIndexes,
        spots: Spots,
        size: int,
        read_into: ReadInto,
        usual_end: int,
    ) -> None:
        self._task, self._indexes, self._spots, self._size = task, indexes, spots, size
        self._read_into, self._usual_end = read_into, usual_end
        self._file = segment_file_name(task.base_offset, FileKind.LOG)
        self._rows = RowChecks(self._file, task.base_offset, task.next_base, task.now_ms, spots)
        if task.start_offset is not None:
            self._rows.last_offset = task.start_offset - 1
        self._producers = ProducerScan()
        self._states = TransactionStates() if task.topic == TRANSACTION_STATE else None
        self._ahead = AheadRows(self._rows)
        self._begin()
        self._usual = UsualParts(self._rows, indexes.offsets, indexes.times, task.start_digest)
        self._is_checked = False  # whether the walk of the last part has checked it (`UsualParts`)
        self._good_end, self._digest = task.start_position, task.start_digest
        self._has_damage = False
        self._bad: tuple[int, int, str, int] | None = None  # position, end, reason, offset of bad batches

    def read(self) -> None:
        position = self._task.start_position
        while position < self._size:
            stop = WalkStop.END
            for part in walk_file(
                self._read_into, position, self._size, buffer=memory.buffer, walk_piece=self._walk
            ):
                self._take(part)
                stop, end = part.walk.stop, part.position + part.walk.next_position
                if part.is_last and stop is not WalkStop.END:
                    position = self._pass_damage(part, end)
            if stop is WalkStop.END:
                position = self._size
        self._end_bad()

    def _walk(self, data: Bytes, start: int, end: int, position: int) -> Walk:
        """Walk a part. Up to the first unusual part, the same pass also checks it (`UsualParts`).

        An unusual part has damage or batches of an old format. That part and all later ones are checked
        after the walk, in `_check`.
        """
        if not self._usual.is_over and position + start >= self._usual_end:
            self._usual.is_over = True
            self._begin()
        if not self._usual.is_over:
            needs_rows = self._task.is_deep or self._states is not None
            walk = self._usual.walk(data, start, end, position, needs_rows=needs_rows)
            if walk is not None:
                self._is_checked = True
                self._good_end, self._digest = position + walk.next_position, self._usual.digest
                return walk
            self._leave_usual(position + start)
        self._is_checked = False
        return walk_batches(data, start=start, end=end, table=memory.table)

    def _leave_usual(self, position: int) -> None:
        """Go on in the slow form; or begin it earlier, if a batch of the parts before may be ahead."""
        earlier = self._usual.gapped_start
        rows_after = partial(self._rows_after, position)
        if earlier is not None and is_followed_by_lower(self._rows.last_offset, rows_after):
            raise _UsualTooFarError(earlier)
        self._begin()

    def _begin(self) -> None:
        """The next batches are not compared with those before them: they are the first, or follow damage."""
        self._ahead.begin()
        self._last_offset = self._rows.last_offset  # of the last batch that counts

    def _rows_after(self, position: int) -> Iterator[BatchTable]:
        """The valid batches from this byte on, up to damage that hides where the next one begins."""
        for part in walk_file(self._read_into, position, self._size, buffer=memory.buffer_after):
            yield part.walk.headers[part.walk.headers["valid"]]

    def _take(self, part: Part) -> None:
        if not len(part.walk.headers):
            return
        good = part.walk.headers if self._is_checked else self._check(part)
        if not len(good):
            return
        self._gather(part.data, good, part.position)
        if self._states is not None:
            self._states.add(part.data, good)
        is_old = (good["records_count"] < 0) & (good["magic"] < MAGIC_V2)
        if is_old.any():
            self._unpack_old(part, good[is_old])
        if self._task.is_deep:
            for spot in check_records(self._task.topic, self._file, part.data, good, part.position):
                self._spots.add(spot)
        if not self._has_damage:
            self._good_end = part.position + part.walk.next_position
            if not self._is_checked:
                self._digest = zlib.crc32(good["crc"].tobytes(), self._digest)

    def _check(self, part: Part) -> BatchTable:
        """Check the batches of a part against each other and the indexes; returns the valid ones."""
        headers = part.walk.headers
        believed = headers["valid"].copy()
        whole = np.flatnonzero(believed)
        rows_after = partial(self._rows_after, part.position + part.walk.next_position)
        believed[whole[self._ahead.find(headers[whole], rows_after)]] = False
        good = headers if believed.all() else headers[believed]
        for number in np.flatnonzero(~believed):
            before = headers["last_offset"][:number][believed[:number]]
            last_before = int(before[-1]) if len(before) else self._last_offset
            if headers["valid"][number]:
                self._take_ahead(part, headers[number], last_before)
            else:
                self._take_bad(part, headers[number], last_before)
        if self._bad is not None and believed[-1]:
            self._end_bad()
        if len(good):
            last_before = self._rows.last_offset
            offsets = good["last_offset"]
            self._last_offset = int(offsets[-1])
            self._rows.add(good, part.position)
            if self._indexes.offsets is not None:
                self._indexes.offsets.add(good, part.position, last_before)
            if self._indexes.times is not None:
                self._indexes.times.add(good)
        return good

    def _unpack_old(self, part: Part, rows: BatchTable) -> None:
        """Unpack compressed messages of the old formats, which only then show how many records they have."""
        reader = ColumnReader(columns=["offset", "timestamp"], check_crc=False)
        for row in rows:
            start, size = int(row["position"]), int(row["size"])
            try:
                for records in reader.read(part.data, start=start, end=start + size):
                    self._rows.records_count += records.num_rows
                    assert self._rows.first_offset is not None, "the rows were added before"
                    self._rows.first_offset = min(self._rows.first_offset, records.column(0)[0].as_py())
                    self._rows.add_times(records.column(1).cast("int64").to_numpy() // 1000)
            except CorruptRecordError as error:
                if not self._task.is_deep:  # a deep audit reports this by itself
                    at, offset = part.position + start, int(row["base_offset"])
                    self._say(AuditKind.INVALID_RECORDS, at, size, offset, sentence(error.reason))

    def _take_bad(self, part: Part, row: np.void, last_before: int) -> None:
        """Record a batch with a wrong checksum; neighbours of this kind become one finding.

        The offset is taken from the batch before it, because its own may be wrong.
        """
        start = part.position + int(row["position"])
        end = start + int(row["size"])
        if self._bad is not None and self._bad[1] == start:
            self._bad = (self._bad[0], end, *self._bad[2:])
        else:
            self._end_bad()
            reason = sentence(wrong_crc(part.data, row).reason)
            self._bad = (start, end, reason, last_before + 1)
        self._damaged(end)

    def _take_ahead(self, part: Part, row: np.void, last_before: int) -> None:
        """Report a batch whose offsets cannot be right; later batches are not compared with it."""
        self._end_bad()
        start, size = part.position + int(row["position"]), int(row["size"])
        words = (
            f"The batch of offsets {int(row['base_offset'])} to {int(row['last_offset'])} follows offset "
            f"{last_before}, and is before batches with lower offsets."
        )
        is_cut = is_far(row, self._rows, has_damage=self._has_damage)
        kind = AuditKind.OFFSET_FAR_AHEAD if is_cut else AuditKind.OFFSET_AHEAD
        self._say(kind, start, size, last_before + 1, words)
        self._damaged(start + size)

    def _end_bad(self) -> None:
        if self._bad is not None:
            position, end, reason, offset = self._bad
            self._say(AuditKind.WRONG_CRC, position, end - position, offset, reason)
            self._bad = None

    def _damaged(self, end: int) -> None:
        self._has_damage = True
        if self._indexes.offsets is not None:
            self._indexes.offsets.skip_to(end)
        if self._indexes.times is not None:
            self._indexes.times.skip_damage()

    def _pass_damage(self, part: Part, position: int) -> int:
        """Report what is not a batch, and return where the next batch starts.

        If bytes are missing in the middle of a file, the batch there has a wrong checksum, and no other batch
        starts where it should end. Both facts are reported as one damage, with the reason of the first.
        """
        self._usual.is_over = True
        size, stop = self._size, part.walk.stop
        start, offset = position, self._rows.last_offset + 1
        reason = sentence(explain_stop(part.data, part.walk.next_position, size - part.position, stop))
        if self._bad is not None and self._bad[1] == position:
            start, _, reason, offset = self._bad
            self._bad = None
        self._end_bad()
        below = self._task.base_offset + 2**31 if self._task.next_base is None else self._task.next_base
        found = search_batch(self._read_into, position + 1, size, above=self._rows.last_offset, below=below)
        end = size if found is None else found
        kind = self._kind_of(stop, position, is_at_end=found is None)
        # `_damaged` ends the checks of the indexes, at a torn tail too, except whether an entry points past
        # the end of the file: the death of a process leaves a torn tail, but only a power cut leaves such an
        # entry.
        self._damaged(end)
        self._say(kind, start, end - start, offset, reason)
        self._begin()
        return end

    def _kind_of(self, stop: WalkStop, position: int, *, is_at_end: bool) -> AuditKind:
        kind = _KINDS[stop]
        if is_at_end and kind is AuditKind.BAD_LENGTH and only_zeros(self._read_into, position, self._size):
            return AuditKind.ZEROS
        if kind is AuditKind.TORN_TAIL and not (is_at_end and self._task.next_base is None):
            return AuditKind.BAD_LENGTH  # only the end of a log can be torn
        return kind

    def _gather(self, data: Bytes, rows: BatchTable, position: int) -> None:
        start = 0
        rows = np.ascontiguousarray(rows)
        while start < len(rows):
            start, reached = gathering.gather(data, rows, start, *self._producers.tables)
            if reached == gathering.NEEDS_ROOM:
                self._producers.make_room()
            elif reached == gathering.MARKER:
                row = rows[start]
                try:
                    self._producers.add_marker(data, row)
                except InvalidRecordError as error:
                    at, offset = position + int(row["position"]), int(row["base_offset"])
                    reason = sentence(error.reason)
                    self._say(AuditKind.INVALID_MARKER, at, int(row["size"]), offset, reason)
                start += 1

    def _say(self, kind: AuditKind, position: int, size: int, offset: int, words: str) -> None:
        self._spots.add(Spot(kind, self._file, words, position=position, size=size, offset=offset))

    def result(self) -> AuditedSegment:
        rows, task = self._rows, self._task
        # `recover` does not touch the log of the cluster's metadata, because the broker rebuilds its indexes
        # at each start. So `was_closed` does not say that this log was closed, and its time index may lack
        # the last entry. Kafka: KafkaMetadataLog
        is_closed = task.next_base is not None or (task.was_closed and task.topic != CLUSTER_METADATA)
        if self._indexes.offsets is not None:
            size = self._size if self._has_damage else self._good_end
            self._indexes.offsets.end(size, rows.last_offset, task.next_base, has_damage=self._has_damage)
        if self._indexes.times is not None and not self._has_damage and task.start_position == 0:
            self._indexes.times.end(rows.last_offset, task.next_base, is_closed=is_closed)
        scan = SegmentScan(
            path=task.path,
            base_offset=task.base_offset,
            start_position=0,
            file_size=self._size,
            valid_size=self._good_end,
            stop=ScanStop.END,
            reason="",
            batches_count=rows.batches_count,
            next_offset=rows.last_offset + 1,
            max_timestamp=rows.max_timestamp,
            offset_of_max_timestamp=rows.last_offset,
            offset_index=b"",
            time_index=b"",
            epoch_starts=self._producers.epoch_starts(),
            producers=self._producers.producers(),
            transactions=self._producers.events(),
            emptied_markers=self._producers.emptied_markers(),
        )
        return AuditedSegment(
            base_offset=task.base_offset,
            size=self._size,
            read_size=self._size - task.start_position,
            good_end=self._good_end,
            digest=self._digest,
            records_count=rows.records_count,
            codecs=rows.codecs,
            first_timestamp=rows.first_timestamp,
            first_offset=rows.first_offset,
            last_offset=rows.last_offset,
            gaps=tuple(rows.gaps),
            gaps_count=rows.gaps_count,
            is_compacted=rows.is_compacted,
            has_damage=self._has_damage,
            scan=scan,
            aborted=self._indexes.aborted,
            spots=self._spots.result(),
            coordinated=() if self._states is None else self._states.result(),
        )
