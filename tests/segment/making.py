"""Segments and batches for tests: sets of batches as a log hands them to a segment."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stratalog.config import LogConfig
from stratalog.files.disk import Disk
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.records.control import ControlType, EndTxnMarker
from stratalog.records.reader import read_batches
from stratalog.records.walk import walk_batches
from stratalog.segment.fetched import FetchedRange
from stratalog.segment.segment import LogSegment

NOW = 1_700_000_000_000


class ManualClock:
    """A clock that stands still until a test sets it."""

    def __init__(self, now: int = NOW) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def config_of(interval: int = 4096, index_bytes: int = 1000) -> LogConfig:
    return LogConfig.of({"index.interval.bytes": interval, "segment.index.bytes": index_bytes})


def new_segment(
    directory: Path, base_offset: int = 0, *, interval: int = 10, index_bytes: int = 1000
) -> LogSegment:
    """A segment as Kafka's own tests make it: an entry for nearly every batch, room for few."""
    return LogSegment.create(Disk(), directory, base_offset, config_of(interval, index_bytes), ManualClock())


def reopened(segment: LogSegment, *, growable: bool = True) -> LogSegment:
    """The same files, opened again, with indexes that can grow, like those of the last segment."""
    again = LogSegment.open(
        Disk(),
        segment.directory,
        segment.base_offset,
        segment.reader.config,
        segment.clock,
        suffix=segment.suffix,
    )
    if growable:
        again.resize_indexes(segment.reader.config.segment_index_bytes)
    return again


def records(first_offset: int, *values: str, timestamp: int | None = None) -> bytes:
    """One batch; the timestamps are those of Kafka's tests, ten milliseconds to an offset, unless given."""
    return build_batch(
        [
            Record(
                first_offset + i,
                (first_offset + i) * 10 if timestamp is None else timestamp,
                None,
                value.encode(),
            )
            for i, value in enumerate(values)
        ]
    )


def append(segment: LogSegment, *batches: bytes) -> None:
    """Append batches as one set."""
    data = b"".join(batches)
    headers = walk_batches(data).headers
    segment.append(data, headers, int(headers[-1]["last_offset"]))


def batch_of_size(offset: int, timestamp: int, size: int) -> bytes:
    """A batch of one record and exactly `size` bytes."""
    value_size = max(0, size - 75)
    for _ in range(4):  # lengths take more bytes when they grow, so the first guess may be off by a few
        batch = build_batch([Record(offset, timestamp, None, b"x" * value_size)])
        if len(batch) == size:
            return batch
        value_size = max(0, value_size + size - len(batch))
    raise ValueError(f"no batch of one record has {size} bytes")


def marker(offset: int, producer_id: int, control_type: ControlType, **fields: int) -> bytes:
    """A transaction marker as a broker writes it."""
    end = EndTxnMarker(control_type, fields.get("coordinator_epoch", 0))
    options = BatchOptions(
        producer_id=producer_id,
        producer_epoch=fields.get("producer_epoch", 0),
        partition_leader_epoch=fields.get("leader_epoch", -1),
        is_transactional=True,
        is_control=True,
    )
    timestamp = fields.get("timestamp", 10 * offset)
    return build_batch([Record(offset, timestamp, end.key_bytes(), end.value_bytes())], options)


@dataclass(slots=True)
class _Producer:
    producer_id: int
    epoch: int = 0
    sequence: int = 0
    is_transactional: bool = False
    is_open: bool = False


class History:
    """Random batches that a real log could hold: gaps, old and no timestamps, codecs, producers, epochs."""

    def __init__(self, seed: int, base_offset: int, *, producers: int = 0) -> None:
        self.random = random.Random(seed)
        self.next_offset = base_offset
        self._timestamp = self.random.choice([0, 5, NOW])
        self._leader_epoch = self.random.choice([-1, 0, 3])
        self._producers = [
            _Producer(number * self.random.choice([1, 1, 997]), is_transactional=self.random.random() < 0.6)
            for number in range(producers)
        ]

    def set_of_batches(self) -> list[bytes]:
        return [self.batch() for _ in range(self.random.choice([1, 1, 2, 3, 6]))]

    def batch(self) -> bytes:
        draw = self.random
        if self._leader_epoch >= 0 and draw.random() < 0.1:
            self._leader_epoch += draw.choice([1, 2])
        if self._producers and draw.random() < 0.8:
            return self._of_producer(draw.choice(self._producers))
        return self._data(BatchOptions(codec=self._codec(), partition_leader_epoch=self._leader_epoch))

    def _of_producer(self, producer: _Producer) -> bytes:
        draw = self.random
        if producer.is_transactional and draw.random() < 0.25:
            return self._end(producer)
        if not producer.is_open and draw.random() < 0.1:
            producer.epoch, producer.sequence = producer.epoch + 1, 0
        options = BatchOptions(
            codec=self._codec(),
            partition_leader_epoch=self._leader_epoch,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=producer.sequence,
            is_transactional=producer.is_transactional,
        )
        first = self.next_offset
        batch = self._data(options)
        producer.sequence = (producer.sequence + self.next_offset - first) % 2**31
        producer.is_open = producer.is_transactional
        return batch

    def _end(self, producer: _Producer) -> bytes:
        if self.random.random() < 0.5:  # transactions v2: the marker has the next epoch
            producer.epoch, producer.sequence = producer.epoch + 1, 0
        producer.is_open = False
        offset, self.next_offset = self.next_offset, self.next_offset + 1
        return marker(
            offset,
            producer.producer_id,
            self.random.choice([ControlType.ABORT, ControlType.COMMIT]),
            producer_epoch=producer.epoch,
            coordinator_epoch=self.random.randrange(3),
            leader_epoch=self._leader_epoch,
            timestamp=self._next_timestamp(),
        )

    def _data(self, options: BatchOptions) -> bytes:
        draw = self.random
        if draw.random() < 0.2:
            self.next_offset += draw.choice([1, 2, 50])  # a gap, as compaction leaves it
        count = draw.choice([1, 1, 2, 5])
        rows = []
        for _ in range(count):
            rows.append(Record(self.next_offset, self._next_timestamp(), None, self._value()))
            self.next_offset += draw.choice([1, 1, 1, 2]) if options.producer_id < 0 else 1
        self.next_offset = rows[-1].offset + 1
        return build_batch(rows, options)

    def _next_timestamp(self) -> int:
        if self.random.random() < 0.05:
            return -1
        self._timestamp = max(0, self._timestamp + self.random.choice([-20, 0, 0, 1, 7, 1000]))
        return self._timestamp

    def _value(self) -> bytes:
        return self.random.randbytes(self.random.choice([0, 3, 40, 300, 900]))

    def _codec(self) -> Codec:
        return self.random.choice([Codec.NONE, Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4])


def joined(batches: Sequence[bytes]) -> bytes:
    return b"".join(batches)


def offsets_in(segment: LogSegment, found: FetchedRange | None) -> list[int]:
    assert found is not None
    data = segment.reader.read_bytes(found.position, found.size)
    return [record.offset for batch in read_batches(data) for record in batch]


class CountingDisk(Disk):
    """Counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def __getattribute__(self, name: str) -> object:
        if not name.startswith("_") and name != "asked":
            self.asked.append(name)
        return super().__getattribute__(name)
