"""Checks the headers of a segment's batches against each other: offsets, epochs, times, counts.

Headers come in runs, in the order of the file, as rows of `records/kernels/walk.py`. Each check is a few
operations on whole columns. Runs before the first unusual one do not come here: a kernel has checked them by
the same rules (`usual_parts.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stratalog.limits import INT32_MAX
from stratalog.operations.audit.kinds import AuditKind
from stratalog.operations.audit.spots import Spot, Spots
from stratalog.operations.words import time_text
from stratalog.records.batch import Attributes
from stratalog.records.compression import CODEC_MASK, Codec
from stratalog.records.kernels.walk import BatchTable
from stratalog.segment.time_index import NO_TIMESTAMP

# A broker refuses later times by default. Kafka: message.timestamp.after.max.ms
FUTURE_MS = 3_600_000
BACKWARD_MS = 24 * 3_600_000
MOST_GAPS = 1000
_V2 = 2


class RowChecks:
    """The facts in the headers of one segment, and where they contradict each other.

    `gaps` are the first and last offset of ranges that no batch covers, the first thousand of `gaps_count`.
    `is_compacted`: a batch has fewer records than offsets, or a delete horizon. Only the cleaner leaves such
    batches.
    """

    def __init__(self, file: str, base_offset: int, next_base: int | None, now_ms: int, spots: Spots) -> None:
        self._file, self.base_offset, self.next_base = file, base_offset, next_base
        self.latest_ms = now_ms + FUTURE_MS
        self._spots = spots
        self.batches_count = self.records_count = 0
        self.first_offset: int | None = None
        self.last_offset = base_offset - 1
        self.first_timestamp = self.max_timestamp = NO_TIMESTAMP
        self._codecs = 0
        self.gaps: list[tuple[int, int]] = []
        self.gaps_count = 0
        self.is_compacted = False
        self._epoch = -1

    def add(self, rows: BatchTable, position: int) -> None:
        """Add the next batches with correct checksums; the buffer begins at byte `position` of the file."""
        if not len(rows):
            return
        last = rows["last_offset"]
        before = np.concatenate(([self.last_offset], last[:-1]))
        self._check_offsets(rows, before, position)
        self._check_counts(rows, position)
        self._check_epochs(rows, position)
        self._check_times(rows, position)
        if self.first_offset is None:
            self.first_offset = int(rows["base_offset"][0])
        for number in np.unique(rows["attributes"] & CODEC_MASK):
            self._codecs |= 1 << int(number)
        self.batches_count += len(rows)
        self.records_count += int(np.maximum(rows["records_count"], 0).sum())
        # The maximum: after one damaged batch, later batches must not count as going backwards.
        self.last_offset = max(self.last_offset, int(last.max()))

    def give_facts(self, facts: np.void) -> None:
        """Fill a row of `records/kernels/audit.py`, before any batch was added."""
        facts["first_offset"], facts["last_offset"] = -1, self.last_offset
        facts["first_timestamp"] = facts["max_timestamp"] = NO_TIMESTAMP
        facts["epoch"] = self._epoch

    def take_facts(self, facts: Mapping[str, int], gaps: NDArray[np.int64]) -> None:
        """Add the batches that the kernel has checked since the last call."""
        self.first_offset = facts["first_offset"] if facts["first_offset"] >= 0 else None
        self.last_offset = facts["last_offset"]
        self.first_timestamp, self.max_timestamp = facts["first_timestamp"], facts["max_timestamp"]
        self.batches_count, self.records_count = facts["batches_count"], facts["records_count"]
        self._codecs, self._epoch = facts["codecs"], facts["epoch"]
        self.is_compacted = bool(facts["is_compacted"])
        self.gaps_count = facts["gaps_count"]
        new_gaps = gaps[len(self.gaps) : min(self.gaps_count, MOST_GAPS)]
        self.gaps += [(first, last) for first, last in new_gaps.tolist()]

    @property
    def codecs(self) -> tuple[str, ...]:
        """Kafka's names of the codecs seen, in the order of their numbers."""
        return tuple(codec.kafka_name for codec in Codec if self._codecs >> codec & 1)

    def _check_offsets(self, rows: BatchTable, before: NDArray[np.int64], position: int) -> None:
        base, last = rows["base_offset"], rows["last_offset"]
        reached = np.maximum.accumulate(before)
        for number in np.flatnonzero((base <= reached) | (last < base)):
            offset = int(base[number])
            if offset < self.base_offset:
                words = f"Offset {offset} is before the segment's base offset, {self.base_offset}."
                self._say(AuditKind.OFFSET_OUTSIDE, rows[number], position, words)
            else:
                words = (
                    f"The batch of offsets {offset} to {int(last[number])} follows offset "
                    f"{int(reached[number])}."
                )
                self._say(AuditKind.OFFSET_BACKWARDS, rows[number], position, words)
        if self.next_base is not None:
            for number in np.flatnonzero(last >= self.next_base):
                words = f"Offset {int(last[number])} belongs to the segment that starts at {self.next_base}."
                self._say(AuditKind.OFFSET_OUTSIDE, rows[number], position, words)
        for number in np.flatnonzero(last - self.base_offset > INT32_MAX):
            words = (
                f"Offset {int(last[number])} is not within 2^31 - 1 of the base offset, {self.base_offset}."
            )
            self._say(AuditKind.OFFSET_OVERFLOW, rows[number], position, words)
        # The first offset of a compressed message of the old formats is known only when it is unpacked.
        has_first = rows["records_count"] >= 0
        gaps = np.flatnonzero((base > reached + 1) & has_first)
        self.gaps_count += len(gaps)
        for number in gaps[: max(0, MOST_GAPS - len(self.gaps))]:
            self.gaps.append((int(reached[number]) + 1, int(base[number]) - 1))

    def _check_counts(self, rows: BatchTable, position: int) -> None:
        is_v2 = rows["magic"] == _V2
        offsets = rows["last_offset"] - rows["base_offset"] + 1
        count = rows["records_count"]
        for number in np.flatnonzero(is_v2 & ((count > offsets) | (count < 0))):
            words = f"The header counts {int(count[number])} records, but has {int(offsets[number])} offsets."
            self._say(AuditKind.RECORDS_COUNT, rows[number], position, words)
        if not self.is_compacted:
            has_horizon = (rows["attributes"] & Attributes.DELETE_HORIZON) != 0
            self.is_compacted = bool((is_v2 & ((count < offsets) | has_horizon)).any())

    def _check_epochs(self, rows: BatchTable, position: int) -> None:
        epochs = rows["partition_leader_epoch"].astype(np.int64)
        known = epochs >= 0
        reached = np.maximum.accumulate(np.concatenate(([self._epoch], np.where(known, epochs, -1)[:-1])))
        for number in np.flatnonzero(known & (epochs < reached)):
            words = f"Leader epoch {int(epochs[number])} follows epoch {int(reached[number])}."
            self._say(AuditKind.EPOCH_BACKWARDS, rows[number], position, words)
        self._epoch = max(self._epoch, int(epochs.max()))

    def _check_times(self, rows: BatchTable, position: int) -> None:
        times = rows["max_timestamp"]
        for number in np.flatnonzero(times > self.latest_ms):
            words = f"The newest record of the batch is from {time_text(int(times[number]))}, in the future."
            self._say(AuditKind.FUTURE_TIMESTAMP, rows[number], position, words)
        reached = np.maximum.accumulate(np.concatenate(([self.max_timestamp], times[:-1])))
        for number in np.flatnonzero((times >= 0) & (reached - times > BACKWARD_MS)):
            words = (
                f"The newest record of the batch is from {time_text(int(times[number]))}; an earlier batch "
                f"has {time_text(int(reached[number]))}."
            )
            self._say(AuditKind.BACKWARD_TIMESTAMP, rows[number], position, words)
        self.max_timestamp = max(self.max_timestamp, int(times.max()))
        self.add_times(_first_times(rows))

    def add_times(self, times: NDArray[np.int64]) -> None:
        """Add the first timestamps of batches; -1 for none, as in an emptied batch or in magic 0."""
        known = times[times >= 0]
        if known.size:
            earliest = int(known.min())
            is_first = self.first_timestamp == NO_TIMESTAMP
            self.first_timestamp = earliest if is_first else min(self.first_timestamp, earliest)

    def _say(self, kind: AuditKind, row: np.void, position: int, words: str) -> None:
        self._spots.add(
            Spot(
                kind,
                self._file,
                words,
                position=position + int(row["position"]),
                size=int(row["size"]),
                offset=int(row["base_offset"]),
            )
        )


def _first_times(rows: BatchTable) -> NDArray[np.int64]:
    """The timestamp of each batch's first record, as far as its header shows it."""
    # With LogAppendTime all records have the batch's largest timestamp, and a delete horizon replaces the
    # base timestamp. Magic 1 has only the LogAppendTime bit, magic 0 has neither.
    overruled = rows["attributes"] & (Attributes.LOG_APPEND_TIME | Attributes.DELETE_HORIZON) != 0
    times: NDArray[np.int64] = np.where(overruled, rows["max_timestamp"], rows["base_timestamp"])
    return times
