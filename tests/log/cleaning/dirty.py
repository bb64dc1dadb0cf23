"""A log to be cleaned: on a simulated disk, with a clock that the test sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stratalog.log.cleaning import (
    CleanResult,
    DirtyLog,
    OffsetMap,
    clean_log,
    last_records_of,
    replace_segments,
)
from stratalog.log.log import Log
from stratalog.records.batch import BatchHeader
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.records.control import ControlType
from stratalog.records.reader import read_batches
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reader import SegmentReader
from tests.log.model import DIRECTORY, NOW, Machine, marker

Pair = tuple[bytes | None, bytes | None]


class Dirty:
    """A log of keyed records. Offsets count from 0; `checkpoint` is where the last cleaning ended."""

    def __init__(self, **settings: int | str) -> None:
        self.machine = Machine(None, DIRECTORY, **{"cleanup_policy": "compact", **settings})
        self.log = self.machine.open()
        self.checkpoint = 0
        self.sequences: dict[int, int] = {}

    def put(
        self, *pairs: Pair, codec: Codec = Codec.NONE, timestamp: int | None = None, offset: int | None = None
    ) -> int:
        """A batch of these keys and values; returns its first offset."""
        return self._append(pairs, BatchOptions(codec=codec, partition_leader_epoch=0), timestamp, offset)

    def produce(self, producer_id: int, *pairs: Pair, transactional: bool = False, epoch: int = 0) -> int:
        """The same from an idempotent producer, or in its transaction."""
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + len(pairs)
        options = BatchOptions(
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=transactional,
            partition_leader_epoch=0,
        )
        return self._append(pairs, options, None, None)

    def end(self, producer_id: int, kind: ControlType, *, epoch: int = 0) -> int:
        """Commit or abort."""
        offset = self.log.log_end_offset
        data = marker(producer_id, kind, epoch=epoch, base_offset=offset, timestamp=self.machine.clock())
        self.log.append_as_follower(data, leader_epoch=0)
        return offset

    def roll(self) -> None:
        self.log.roll()

    def wait(self, ms: int) -> None:
        self.machine.clock.sleep(ms)

    def clean(
        self,
        *,
        keys: int = 1000,
        end: int | None = None,
        check_done: Callable[[], object] = lambda: None,
        throttle: Callable[[int], object] = lambda _: None,
        is_dry: bool = False,
    ) -> CleanResult:
        """Clean up to the active segment, or to another base, with a map for `keys` keys."""
        result = clean_log(
            self.bounds(end),
            OffsetMap(24 * (keys + 1), load_factor=keys / (keys + 1) + 1e-9),
            now_ms=self.machine.clock(),
            replace_segments=None if is_dry else self.replace,
            check_done=check_done,
            throttle=throttle,
        )
        if not is_dry:
            self.checkpoint = result.end_offset
        return result

    def bounds(self, end: int | None = None) -> DirtyLog:
        log = self.log
        return DirtyLog(
            disk=self.machine.disk,
            clock=self.machine.clock,
            segments=log.segments.readers,
            config=log.config,
            first_dirty_offset=self.checkpoint,
            first_uncleanable_offset=log.segments.active.base_offset if end is None else end,
            last_records=last_records_of(log.producers.producers.values()),
        )

    def replace(self, new: LogSegment, old: Sequence[SegmentReader]) -> None:
        replace_segments(
            self.machine.disk,
            self.log.segments,
            [new],
            old,
            scheduler=self.machine.scheduler,
            producers=self.log.producers,
            delete_delay_ms=self.log.config.file_delete_delay_ms,
        )

    @property
    def pairs(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """(offset, key, value) of all records there are, markers included."""
        return [(record.offset, record.key, record.value) for record in records_of(self.log)]

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in records_of(self.log)]

    def headers(self) -> list[BatchHeader]:
        """Of all batches below the active segment."""
        found = []
        for segment in list(self.log.segments)[:-1]:
            data = segment.reader.read_bytes(0, segment.size)
            position = 0
            while position < len(data):
                found.append(BatchHeader.unpack(data, position))
                position += found[-1].size
        return found

    def _append(
        self, pairs: Sequence[Pair], options: BatchOptions, timestamp: int | None, offset: int | None
    ) -> int:
        first = self.log.log_end_offset if offset is None else offset
        time = self.machine.clock() if timestamp is None else timestamp
        records = [Record(first + i, time, key, value) for i, (key, value) in enumerate(pairs)]
        self.log.append_as_follower(build_batch(records, options), leader_epoch=0)
        return first


def records_of(log: Log) -> list[Record]:
    """All records, segment by segment; a fetch would end at a segment that has empty batches only."""
    return [
        record
        for segment in log.segments
        for batch in read_batches(segment.reader.read_bytes(0, segment.size))
        for record in batch
    ]


__all__ = ["NOW", "Dirty", "Pair", "records_of"]
