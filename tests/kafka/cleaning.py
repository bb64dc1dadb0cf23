"""Dirty logs from a seed, and both cleaners on copies of them: Kafka's own `Cleaner.doClean` and ours.

A log has duplicates within and across segments, tombstones, idempotent and transactional producers with
commits and aborts, records without a key, gaps between offsets, all codecs or none, and in some logs messages
of formats 0 and 1. It is written by our log, whose files are Kafka's (test_log.py), as a follower would.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from stratalog.config import LogConfig
from stratalog.errors import CorruptRecordError
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.log.cleaning import (
    CleanResult,
    DirtyLog,
    OffsetMap,
    clean_log,
    last_records_of,
    replace_segments,
)
from stratalog.log.loader import load
from stratalog.log.log import Log
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec, compress
from stratalog.records.control import ControlType, EndTxnMarker
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reader import SegmentReader
from tests import naive
from tests.kafka.jars import KafkaJars
from tests.kafka.java import JavaProgram
from tests.log.model import ManualClock, ManualScheduler

T0 = 1_700_000_000_000


class CleanerOracle:
    """Kafka's cleaner on the other end of a pipe; java/CleanerOracle.java has the fields."""

    def __init__(self, jars: KafkaJars, *options: Any) -> None:
        self.program = JavaProgram(jars, "CleanerOracle", *options)

    def clean(self, **given: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.program.ask(json.dumps(given)))
        return answer


@dataclass(slots=True)
class _Producer:
    producer_id: int
    is_transactional: bool
    epoch: int = 0
    sequence: int = 0
    is_open: bool = False


@dataclass(slots=True)
class DirtyHistory:
    """What the seed decides: the topic's settings, the sizes of the cleaner's buffers, and the records.

    A plain history has no transactions and no old formats, and its keys fit the map: our cleaner reads such a
    log backwards.
    """

    seed: int
    is_plain: bool = False
    leader_epoch: int = 3
    random: Random = field(init=False)
    config: dict[str, str] = field(init=False)
    producers: list[_Producer] = field(init=False)
    recompresses: bool = field(init=False)
    has_old_formats: bool = field(init=False)
    map_size: int = field(init=False)
    io_buffer_size: int = field(init=False)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        pick = self.random.choice
        self.recompresses = self.seed % 2 == 1
        self.has_old_formats = self.seed % 5 == 4 and not self.is_plain
        self.map_size = pick([24 * 4, 24 * 8, 24 * 1000, 24 * 1000])
        if self.is_plain:
            self.map_size = 24 * 1000
        self.io_buffer_size = pick([1024, 4096, 262_144])
        self.config = {
            "cleanup.policy": "compact",
            "index.interval.bytes": pick(["0", "100", "400", "4096"]),
            "internal.segment.bytes": pick(["2500", "4000", "9000"]),
            "segment.index.bytes": pick(["200", "4096"]),
            "delete.retention.ms": pick(["0", "1000", "100000"]),
            "file.delete.delay.ms": "60000",
        }
        if self.random.random() < 0.2:
            self.config["preallocate"] = "true"
        if self.seed % 8 == 3:
            # Tombstones stay forever: added to the clock, this overflows a long.
            self.config["delete.retention.ms"] = str(2**63 - 1)
        self.producers = [
            _Producer(1000 + i, is_transactional=i != 0 and not self.is_plain) for i in range(4)
        ]

    def write(self, log: Log, now_ms: int, count: int) -> None:
        """Append `count` batches at the log's end."""
        for number in range(count):
            offset = log.log_end_offset + self.random.choice([0, 0, 0, 0, 5])
            log.append_as_follower(self._batch(offset, now_ms + number), leader_epoch=self.leader_epoch)
            if self.random.random() < 0.04:
                log.roll()
        log.update_high_watermark(log.log_end_offset)

    def end_transactions(self, log: Log, now_ms: int) -> None:
        """Append a marker for each open transaction, so that the cleaner may clean everything before."""
        for producer in self.producers:
            if producer.is_open:
                marker = self._marker(producer, log.log_end_offset, now_ms)
                log.append_as_follower(marker, leader_epoch=self.leader_epoch)
        log.update_high_watermark(log.log_end_offset)

    def _batch(self, offset: int, now_ms: int) -> bytes:
        chosen = self.random.random()
        producer = self.random.choice(self.producers)
        if self.has_old_formats and chosen < 0.3:
            return self._old_message(offset, now_ms)
        records = self._records(offset, now_ms)
        codec = self.random.choice(list(Codec)) if self.recompresses else Codec.NONE
        if chosen < 0.55:
            time = now_ms if self.random.random() < 0.1 else None
            options = BatchOptions(
                codec=codec, log_append_time=time, partition_leader_epoch=self.leader_epoch
            )
            return build_batch(records, options)
        if producer.is_open and chosen < 0.7:
            return self._marker(producer, offset, now_ms)
        if self.random.random() < 0.05 and not producer.is_open:
            producer.epoch, producer.sequence = producer.epoch + 1, 0
        options = BatchOptions(
            codec=codec,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=producer.sequence,
            is_transactional=producer.is_transactional,
            partition_leader_epoch=self.leader_epoch,
        )
        producer.is_open = producer.is_transactional
        producer.sequence += records[-1].offset - offset + 1
        return build_batch(records, options)

    def _marker(self, producer: _Producer, offset: int, now_ms: int) -> bytes:
        producer.is_open = False
        end = EndTxnMarker(self.random.choice([ControlType.COMMIT, ControlType.ABORT]), 0)
        if self.random.random() < 0.3:
            producer.epoch, producer.sequence = producer.epoch + 1, 0  # as transactions v2 do
        options = BatchOptions(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            is_transactional=True,
            is_control=True,
            partition_leader_epoch=self.leader_epoch,
        )
        return build_batch([Record(offset, now_ms, end.key_bytes(), end.value_bytes())], options)

    def _old_message(self, offset: int, now_ms: int) -> bytes:
        magic = self.random.choice([0, 1])
        records = [
            naive.Record(record.offset, record.timestamp, record.key, record.value)
            for record in self._records(offset, now_ms)
        ]
        if not self.recompresses:
            return naive.encode_message(records[0], magic=magic)
        # Relative offsets in a v1 wrapper, absolute ones in v0; the wrapper has the last one's.
        first = records[0].offset if magic == 1 else 0
        inner = [naive.Record(r.offset - first, r.timestamp, r.key, r.value) for r in records]
        whole = b"".join(naive.encode_message(record, magic=magic) for record in inner)
        outer = naive.Record(records[-1].offset, now_ms, None, compress(Codec.GZIP, whole, magic=magic))
        return naive.encode_message(outer, magic=magic, attributes=Codec.GZIP)

    def _records(self, offset: int, now_ms: int) -> list[Record]:
        records = []
        for _ in range(self.random.choice([1, 1, 2, 4, 12])):
            key: bytes | None = b"key %d" % self.random.randrange(14)
            if self.random.random() < 0.03:
                key = self.random.choice([None, b"", b"\0\0\0\1"])  # the last one is a commit marker's
            value = None if self.random.random() < 0.2 else b"v" * self.random.choice([0, 3, 40, 150])
            headers = (("h", b"x"), ("n", None)) if self.random.random() < 0.1 else ()
            records.append(Record(offset, now_ms + self.random.randrange(-500, 500), key, value, headers))
            offset += self.random.choice([1, 1, 1, 3])
        return records


class OurCleaner:
    """A log of ours in a real directory, with a fixed clock, which our cleaner cleans."""

    def __init__(self, directory: Path, config: dict[str, str], now_ms: int) -> None:
        self.clock = ManualClock(now_ms)
        self.scheduler = ManualScheduler(self.clock)
        self.disk = Disk()
        self.log = load(
            disk=self.disk,
            clock=self.clock,
            scheduler=self.scheduler,
            directory=str(directory),
            topic_partition=TopicPartition("dirty", 0),
            config=LogConfig.of(config),
        )
        self.log.update_high_watermark(self.log.log_end_offset)

    @property
    def first_uncleanable_offset(self) -> int:
        """The base of the segment that the last stable offset is in, or of the active one."""
        segments = self.log.segments
        first = segments.floor(min(self.log.last_stable_offset, segments.active.base_offset))
        assert first is not None
        return first.base_offset

    def dirty_log(self, first_dirty_offset: int) -> DirtyLog:
        """What a cleaning gets."""
        return DirtyLog(
            disk=self.disk,
            segments=self.log.segments.readers,
            clock=self.clock,
            config=self.log.config,
            first_dirty_offset=first_dirty_offset,
            first_uncleanable_offset=self.first_uncleanable_offset,
            last_records=last_records_of(self.log.producers.producers.values()),
        )

    def replace(self, new: LogSegment, old: Sequence[SegmentReader]) -> None:
        """Swap a cleaned segment in for a group."""
        replace_segments(
            self.disk,
            self.log.segments,
            [new],
            old,
            scheduler=self.scheduler,
            producers=self.log.producers,
            delete_delay_ms=self.log.config.file_delete_delay_ms,
        )

    def clean(self, first_dirty_offset: int, map_size: int) -> CleanResult | CorruptRecordError:
        try:
            return clean_log(
                self.dirty_log(first_dirty_offset),
                OffsetMap(map_size),
                now_ms=self.clock(),
                replace_segments=self.replace,
            )
        except CorruptRecordError as error:
            return error
