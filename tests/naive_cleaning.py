"""Slow twins of the cleaning kernels, over lists and dicts: what a compaction leaves of each batch.

As `tests/naive.py`: plain Python, nothing of `stratalog`. The rules are those of Kafka's Cleaner.cleanInto
and MemoryRecords.filterTo.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.naive import CODEC_MASK, LOG_APPEND_TIME, Batch, Record, encode_records
from tests.naive_sums import crc32c

TRANSACTIONAL, CONTROL, HORIZON = 0x10, 0x20, 0x40


class Decoded(NamedTuple):
    """A batch, the bytes that contain it, and its records."""

    batch: Batch
    raw: bytes
    records: list[Record]

    @property
    def is_control(self) -> bool:
        return self.batch.magic == 2 and bool(self.batch.attributes & CONTROL)

    @property
    def horizon_ms(self) -> int | None:
        has = self.batch.magic == 2 and self.batch.attributes & HORIZON
        return self.batch.base_timestamp if has else None


class Rules(NamedTuple):
    """The inputs of a cleaning: `last` offset of each key, `producers` with (last data offset, epoch)."""

    now_ms: int
    new_horizon_ms: int
    latest_offset: int
    end_of_round: int
    keeps_old_tombstones: bool
    last: Mapping[bytes, int]
    producers: Mapping[int, tuple[int | None, int]]


class Noted(NamedTuple):
    """The map that a first pass has filled, and how far it came."""

    last: dict[bytes, int]
    records_seen: int
    is_full: bool
    latest_offset: int


def note_keys(batches: Sequence[Decoded], skipped: Sequence[bool], start_offset: int, capacity: int) -> Noted:
    """The last offset of each key from start_offset on; ends before the first record that finds no room."""
    last: dict[bytes, int] = {}
    seen, latest = 0, -1
    for found, is_skipped in zip(batches, skipped, strict=True):
        for record in found.records:
            counts = not is_skipped and not found.is_control
            if counts and record.key is not None and record.offset >= start_offset:
                if len(last) == capacity:
                    return Noted(last, seen, True, latest)
                last[record.key] = latest = record.offset
            seen += 1
        if found.batch.last_offset >= start_offset:
            latest = found.batch.last_offset
    return Noted(last, seen, False, latest)


def clean_batch(found: Decoded, can_discard: bool, rules: Rules) -> bytes | None:
    """What is left of a batch, b"" if nothing; None if it would have to stay as an empty batch but cannot."""
    batch, records = found.batch, found.records
    drops_all = can_discard
    if found.is_control:
        drops_all = can_discard and found.horizon_ms is not None and found.horizon_ms <= rules.now_ms
    kept = [] if drops_all else [record for record in records if _stays(found, record, rules)]
    if not kept:
        if not _stays_empty(batch, rules):
            return b""
        return None if batch.magic < 2 else _empty(batch)
    has_tombstone = any(record.value is None for record in kept)
    wants_horizon = has_tombstone or (found.is_control and can_discard)
    needs_horizon = wants_horizon and found.horizon_ms is None
    if batch.magic == 2 and len(kept) == len(records) and not needs_horizon:
        return found.raw
    return _rebuilt(batch, kept, rules.new_horizon_ms if needs_horizon else found.horizon_ms)


def _stays(found: Decoded, record: Record, rules: Rules) -> bool:
    if found.is_control or record.offset > rules.latest_offset:
        return True
    if record.key is None or record.offset < rules.last.get(record.key, -1):
        return False
    if record.value is not None:
        return True
    if found.batch.magic < 2:
        return rules.keeps_old_tombstones
    return found.horizon_ms is None or rules.now_ms < found.horizon_ms


def _stays_empty(batch: Batch, rules: Rules) -> bool:
    if batch.last_offset + 1 == rules.end_of_round:
        return True
    if batch.producer_id < 0 or batch.producer_id not in rules.producers:
        return False
    last_data_offset, epoch = rules.producers[batch.producer_id]
    if last_data_offset is not None:
        return batch.last_offset == last_data_offset
    return bool(batch.attributes & CONTROL) and batch.producer_epoch == epoch


def _empty(batch: Batch) -> bytes:
    attributes = batch.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    return _v2(batch, batch.base_offset, batch.last_offset, attributes, -1, batch.max_timestamp, 0, b"")


def _rebuilt(batch: Batch, kept: list[Record], horizon_ms: int | None) -> bytes:
    is_v2 = batch.magic == 2
    attributes = batch.attributes & CODEC_MASK
    if batch.magic >= 1:
        attributes |= batch.attributes & LOG_APPEND_TIME
    if is_v2:
        attributes |= batch.attributes & (TRANSACTIONAL | CONTROL)
    base_offset = batch.base_offset if is_v2 else kept[0].offset
    last_offset = batch.last_offset if is_v2 else kept[-1].offset
    base_timestamp = kept[0].timestamp
    if horizon_ms is not None and horizon_ms >= 0:
        attributes |= HORIZON
        base_timestamp = horizon_ms
    max_timestamp = max(record.timestamp for record in kept)
    if attributes & LOG_APPEND_TIME:
        max_timestamp = batch.max_timestamp
    section = encode_records(kept, base_offset=base_offset, base_timestamp=base_timestamp)
    return _v2(batch, base_offset, last_offset, attributes, base_timestamp, max_timestamp, len(kept), section)


def _v2(
    batch: Batch,
    base_offset: int,
    last_offset: int,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    count: int,
    section: bytes,
) -> bytes:
    covered = struct.pack(
        ">h i q q q h i i",
        attributes,
        last_offset - base_offset,
        base_timestamp,
        max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        count,
    )
    covered += section
    epoch = batch.partition_leader_epoch
    return struct.pack(">q i i b I", base_offset, 9 + len(covered), epoch, 2, crc32c(covered)) + covered
