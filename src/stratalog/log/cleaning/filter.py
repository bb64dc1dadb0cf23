"""Filters the batches of a segment for compaction, run by run: each is copied, rewritten or dropped.

`records/kernels/clean.py` makes the decisions. This module gives it the rules, and compresses a batch again
if the batch has a codec and has lost records. Kafka: Cleaner.cleanInto
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratalog.buffers import aligned_buffer
from stratalog.errors import InvalidRecordError
from stratalog.limits import INT64_MAX
from stratalog.log.cleaning.newest import NewerRecords
from stratalog.log.cleaning.runs import DecodedRun
from stratalog.log.cleaning.transactions import CleanedTransactions
from stratalog.records.batch import RECORD_BATCH_OVERHEAD
from stratalog.records.compression import CODEC_MASK, compress
from stratalog.records.kernels import clean as kernel
from stratalog.records.kernels.clean import GROWTH_OF_A_RECORD, LAST_RECORD, VERDICT
from stratalog.records.kernels.memory import Bytes, byte_array
from stratalog.records.kernels.walk import BatchTable
from stratalog.records.walk import new_table, walk_batches

_FIRST_SIZE = 2 << 20
_ATTRIBUTES_AT = 22  # in a batch: the byte of the attributes that has the codec


class LastRecord(NamedTuple):
    """The last record of a producer: its last batch of data, or only a marker."""

    last_data_offset: int | None
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules for records, apart from the map and the transactions.

    `end_of_round` is the first offset that is not cleaned. The batch right before it stays, even if empty;
    otherwise the log would seem to end earlier.
    """

    now_ms: int
    delete_retention_ms: int
    end_of_round: int
    keeps_old_tombstones: bool = True
    """For tombstones of formats 0 and 1, which have no delete horizon."""


class FilteredRun(NamedTuple):
    """What is left of a run: its bytes (`data`), and a row for each batch in them (`batches`).

    The memory of both is used again for the next run. `keep` says for each record of the run whether it
    stays. `is_dropped` says for each batch whether all its records are removed because the batch was aborted,
    or is a marker that is not needed any more.
    """

    data: Bytes
    batches: BatchTable
    records_read: int
    records_without_key: int
    records_written: int
    max_offset: int
    keep: NDArray[np.bool_]
    is_dropped: NDArray[np.bool_]


class OutputMemory:
    """Memory for what is left of one run."""

    __slots__ = ("out", "table", "to_compress")

    def __init__(self) -> None:
        self.out = aligned_buffer(_FIRST_SIZE)
        self.to_compress = np.empty((0, 2), np.int64)
        self.table = new_table()

    def make_room(self, run: DecodedRun) -> None:
        count = len(run.batches)
        unpacked = int((run.batches["records_end"] - run.batches["records_position"]).sum())
        most = run.size + unpacked + RECORD_BATCH_OVERHEAD * count + GROWTH_OF_A_RECORD * len(run.rows)
        self.reserve(count, most)

    def reserve(self, batches_count: int, size: int) -> None:
        """Make room for this many batches, of this many bytes together."""
        if batches_count > len(self.to_compress):
            self.table = new_table(2 * batches_count)
            self.to_compress = np.empty((2 * batches_count, 2), np.int64)
        if size > len(self.out):
            self.out = aligned_buffer(2 * size)


class JudgedRun(NamedTuple):
    """What is left of a run, before batches that lost records are compressed again.

    `size` bytes of the memory are filled, and its first `pending_count` rows of `to_compress`. The rest is as
    in `FilteredRun`.
    """

    memory: OutputMemory
    size: int
    pending_count: int
    records_read: int
    records_without_key: int
    records_written: int
    keep: NDArray[np.bool_]
    is_dropped: NDArray[np.bool_]

    def finish(self) -> FilteredRun:
        """Compress what is to be compressed; this does not depend on other runs, so any thread can do it."""
        data = self.memory.out[: self.size]
        if self.pending_count:
            data = compress_spans(data, self.memory.to_compress[: self.pending_count])
        written = walk_batches(data, table=self.memory.table, check_crc=False).headers
        return FilteredRun(
            data=data,
            batches=written,
            records_read=self.records_read,
            records_without_key=self.records_without_key,
            records_written=self.records_written,
            max_offset=int(written["last_offset"][-1]) if len(written) else -1,
            keep=self.keep,
            is_dropped=self.is_dropped,
        )


class RunFilter:
    """Filters runs for one cleaning."""

    __slots__ = ("_found", "_keep", "_last_records", "_memory", "_newest", "_verdicts")

    def __init__(self, newest: NewerRecords, last_records: Mapping[int, LastRecord]) -> None:
        self._newest = newest
        self._last_records = _table_of(last_records)
        self._keep = np.empty(0, np.bool_)
        self._found = np.empty(0, np.int64)
        self._verdicts = np.empty(0, VERDICT)
        self._memory: OutputMemory | None = None

    def filter(self, run: DecodedRun, transactions: CleanedTransactions, rules: Rules) -> FilteredRun:
        """The part of a run that stays, in memory that is used again for the next one."""
        if self._memory is None:
            self._memory = OutputMemory()
        return self.judge(run, transactions, rules, self._memory).finish()

    def judge(
        self, run: DecodedRun, transactions: CleanedTransactions, rules: Rules, memory: OutputMemory
    ) -> JudgedRun:
        """Write the part of a run that stays into this memory; with transactions, runs come in order."""
        batches, rows = run.batches, run.rows
        self._make_room(run)
        memory.make_room(run)
        verdicts = self._verdicts[: len(batches)]
        verdicts["can_discard"] = False
        transactions.read_batches(run.data, batches, rows, verdicts["can_discard"])
        kernel.judge_batches(batches, rows, self._last_records, rules.end_of_round, rules.now_ms, verdicts)
        found = self._found[: len(rows)]
        self._newest.find(run, found)
        without_key = kernel.judge_records(
            batches,
            rows,
            found,
            self._newest.latest_offset,
            rules.now_ms,
            rules.keeps_old_tombstones,
            verdicts,
            self._keep,
        )
        size, pending_count, refused = kernel.write_batches(
            run.original,
            run.data,
            batches,
            rows,
            verdicts,
            self._keep,
            _horizon_ms(rules),
            memory.out,
            memory.to_compress,
        )
        if refused >= 0:
            raise _no_empty_message(batches[refused])
        unread = verdicts["rows_count"][verdicts["is_deleted"]].sum()
        return JudgedRun(
            memory=memory,
            size=size,
            pending_count=pending_count,
            records_read=len(rows) - int(unread),
            records_without_key=without_key,
            records_written=int(verdicts["kept_count"].sum()),
            keep=self._keep[: len(rows)],
            is_dropped=verdicts["drops_records"],
        )

    def _make_room(self, run: DecodedRun) -> None:
        count, rows_count = len(run.batches), len(run.rows)
        if count > len(self._verdicts):
            self._verdicts = np.empty(2 * count, VERDICT)
        if rows_count > len(self._keep):
            self._keep = np.empty(2 * rows_count, np.bool_)
            self._found = np.empty(2 * rows_count, np.int64)


def compress_spans(written: Bytes, spans: NDArray[np.int64]) -> Bytes:
    """The output with the batches at these (start, end) compressed, and their headers corrected."""
    view = written.data
    parts: list[memoryview | bytes] = []
    placed = np.empty_like(spans)
    done = size = 0
    for index, (start, end) in enumerate(spans.tolist()):
        records = start + RECORD_BATCH_OVERHEAD
        section = compress(view[start + _ATTRIBUTES_AT] & CODEC_MASK, view[records:end])
        parts += (view[done:records], section)
        size += records - done
        placed[index] = size - RECORD_BATCH_OVERHEAD, size + len(section)
        size += len(section)
        done = end
    parts.append(view[done:])
    joined = byte_array(bytearray().join(parts))
    kernel.seal_batches(joined, placed)
    return joined


def _horizon_ms(rules: Rules) -> int:
    """The delete horizon of a tombstone that is first seen now; -1 (no horizon) if the sum overflows.

    Kafka's sum wraps to a negative number then, and the batch gets no horizon either.
    """
    horizon_ms = rules.now_ms + rules.delete_retention_ms
    return horizon_ms if horizon_ms <= INT64_MAX else -1


def _table_of(last_records: Mapping[int, LastRecord]) -> BatchTable:
    table = np.zeros(len(last_records), LAST_RECORD)
    for row, producer_id in zip(table, sorted(last_records), strict=True):
        last = last_records[producer_id]
        row["producer_id"] = producer_id
        row["last_data_offset"] = -1 if last.last_data_offset is None else last.last_data_offset
        row["producer_epoch"] = last.producer_epoch
    return table


def _no_empty_message(row: np.void) -> InvalidRecordError:
    return InvalidRecordError(
        f"the message of format {row['magic']} at offset {row['last_offset']} is the last that may be "
        "cleaned. None of its records stays, and there is no empty batch in that format to keep its offset. "
        "Kafka's cleaner stops here too; the next cleaning can pass once another record is appended after "
        "this one.",
        position=int(row["position"]),
    )
