"""The newest record of each key: the compacted view of a topic, without compacting it.

There are two passes over the same planned tasks. The first decodes keys, and puts the hash of each key with
its offset into a map; the second decodes only batches with a newest record, and returns only these records.
Memory is that of a scan plus the map. The map holds the keys of a few partitions at a time, at 24 bytes a
slot, and some slots are empty. As in compaction, keys are compared by SipHash-128 with a random key: among a
billion keys, the chance that any two have the same hash is below 1 in 10^20.

As in compaction, each partition is handled separately, records without a key are left out, and a key whose
newest record has no value is deleted.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stratalog.files.names import TopicPartition
from stratalog.jobs.reading.narrowing import EVERYTHING, Narrowing, Wanted
from stratalog.jobs.reading.omissions import Omission, OmissionKind, OnOmission
from stratalog.jobs.reading.plan import plan_stepwise
from stratalog.jobs.reading.read import Pickers
from stratalog.jobs.reading.split import ReadTask
from stratalog.log.cleaning.offset_map import DEFAULT_LOAD_FACTOR
from stratalog.records.kernels import latest as kernel
from stratalog.records.kernels.decode import RecordTable
from stratalog.records.kernels.hash import hash_keys
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.offset_map import ENTRIES, Hashes
from stratalog.records.kernels.walk import BatchTable
from stratalog.scanning.in_order import in_order
from stratalog.scanning.sources import BUDGET, TASK_SIZE, RecordSource, batch_size

FIRST_SLOTS = 1 << 12
# Small partitions are read together, so that each thread has something to do.
GROUP_SIZE = 256 << 20


@dataclass(frozen=True, kw_only=True)
class LatestSource:
    """The newest record of each key of some partitions, in the order of partitions and offsets."""

    records: RecordSource
    tombstones: bool

    @property
    def schema(self) -> pa.Schema:
        return self.records.schema

    def batches(
        self, columns: Sequence[str], *, narrowing: Narrowing, on_omission: OnOmission
    ) -> Generator[pa.RecordBatch, None, None]:
        tasks = plan_stepwise(
            self.records.options,
            task_size=TASK_SIZE,
            disk=self.records.disk,
            on_omission=on_omission,
            narrowing=lambda partition: _from_start(narrowing(partition)),
        )
        for group in _grouped(tasks):
            yield from self._newest(group, columns, on_omission)

    def _newest(
        self, tasks: list[ReadTask], columns: Sequence[str], on_omission: OnOmission
    ) -> Generator[pa.RecordBatch, None, None]:
        partitions = {split.topic_partition for task in tasks for split in task.splits}
        maps = {partition: NewestOffsets() for partition in partitions}
        for _ in self._read(tasks, ("offset",), maps, on_omission):
            raise AssertionError("the first pass picks no row")
        stored = {
            partition: StoredOffsets(maps.pop(partition).offsets(), with_tombstones=self.tombstones)
            for partition in partitions
        }

        lost: set[TopicPartition] = set()

        def on_new_omission(found: Omission) -> None:
            # Damage was reported by the first pass. New here: keys and values that cannot be decoded, and
            # files that are gone.
            if found.kind is OmissionKind.LOSS:
                lost.add(found.topic_partition)
            if found.kind is not OmissionKind.DAMAGE:
                on_omission(found)

        yield from self._read(tasks, columns, stored, on_new_omission)
        for partition in sorted(partitions - lost):
            stored[partition].report_missing(partition, on_omission)

    def _read(
        self, tasks: list[ReadTask], columns: Sequence[str], pickers: Pickers, on_omission: OnOmission
    ) -> Generator[pa.RecordBatch, None, None]:
        threads, read_with = self.records.threads, self.records.reading(columns, on_omission)

        def read(task: ReadTask) -> Generator[pa.RecordBatch, None, None]:
            yield from read_with(task, pickers)

        return in_order(iter(tasks), read, threads=threads, size_of=batch_size, budget=BUDGET * threads)


class NewestOffsets:
    """Collects the last offset of each key, from any thread; picks no row."""

    def __init__(self) -> None:
        self._key = np.uint64(secrets.randbits(64)), np.uint64(secrets.randbits(64))
        self._state = np.array([0, -1], np.int64)
        self._slots = np.zeros(FIRST_SLOTS * kernel.WORDS, np.uint64)
        self._lock = threading.Lock()

    def pick_batches(self, _headers: BatchTable, /) -> NDArray[np.bool_] | None:
        return None

    def pick_rows(self, data: Bytes, rows: RecordTable) -> NDArray[np.bool_] | None:
        hashes = np.empty((len(rows), 2), np.uint64)
        hash_keys(data, rows, *self._key, hashes)
        with self._lock:
            row = self._put(rows, hashes, 0)
            while row < len(rows):
                self._grow()
                row = self._put(rows, hashes, row)
        return np.zeros(len(rows), np.bool_)

    def offsets(self) -> NDArray[np.int64]:
        """The offsets, ascending."""
        found = np.empty(int(self._state[ENTRIES]), np.int64)
        kernel.stored_offsets(self._slots, found)
        found.sort()
        return found

    def _put(self, rows: RecordTable, hashes: Hashes, start: int) -> int:
        capacity = int(len(self._slots) // kernel.WORDS * DEFAULT_LOAD_FACTOR)
        return kernel.put_newest(self._slots, capacity, self._state, rows, hashes, start)

    def _grow(self) -> None:
        larger = np.zeros(2 * len(self._slots), np.uint64)
        kernel.move_entries(self._slots, larger)
        self._slots = larger


class StoredOffsets:
    """Picks the records with these offsets, which ascend."""

    def __init__(self, offsets: NDArray[np.int64], *, with_tombstones: bool) -> None:
        self.offsets = offsets
        self._with_tombstones = with_tombstones
        self._found = np.zeros(len(offsets), np.bool_)

    def pick_batches(self, headers: BatchTable) -> NDArray[np.bool_] | None:
        first = np.searchsorted(self.offsets, headers["base_offset"], "left")
        # A wrapper of an old format has only its last offset in the header: its first is not known.
        first[headers["magic"] < 2] = 0
        found: NDArray[np.bool_] = first < np.searchsorted(self.offsets, headers["last_offset"], "right")
        return found

    def pick_rows(self, _data: Bytes, rows: RecordTable, /) -> NDArray[np.bool_] | None:
        kept = np.empty(len(rows), np.bool_)
        kernel.mark_stored(rows, self.offsets, self._with_tombstones, kept, self._found)
        return kept

    def report_missing(self, partition: TopicPartition, on_omission: OnOmission) -> None:
        """Report the offsets whose records are missing.

        A broker compacted the log between the two passes and removed them.
        """
        missing = self.offsets[~self._found]
        if len(missing):
            on_omission(
                Omission(
                    **partition._asdict(),
                    kind=OmissionKind.LOSS,
                    first_offset=int(missing[0]),
                    end_offset=int(missing[-1]) + 1,
                    why="while the log was read, compaction removed records that had been the newest of "
                    f"their keys ({len(missing)} in all), because newer ones replaced them. Scan again.",
                )
            )


def _from_start(wanted: Wanted | None) -> Wanted | None:
    """The narrowing without its end: a record before the end may not be the newest of its key."""
    return None if wanted is None else replace(wanted, last_offset=EVERYTHING.last_offset)


def _grouped(tasks: Iterator[ReadTask]) -> Iterator[list[ReadTask]]:
    """Groups of tasks, about GROUP_SIZE bytes each; all tasks of a partition are in the same group."""
    group: list[ReadTask] = []
    size, last = 0, None
    for task in tasks:
        first: TopicPartition = task.splits[0].topic_partition
        if group and size >= GROUP_SIZE and first != last:
            yield group
            group, size = [], 0
        group.append(task)
        size += sum(split.size for split in task.splits)
        last = task.splits[-1].topic_partition
    if group:
        yield group
