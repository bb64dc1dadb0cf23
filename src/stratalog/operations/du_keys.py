"""How much of the disk each key prefix takes: reads all records, and divides each batch among its records.

A batch is one compressed block, so the share of a record is an estimate. It is the size of its key, value and
headers plus a few bytes, divided by the sum of these sizes in its batch. All shares, with those of records
without a key, add up to the bytes of the .log files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stratalog.clock import Clock
from stratalog.engine.progress import OnProgress
from stratalog.errors import StratalogError
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.cleaning.runs import DecodedRun, RunReader
from stratalog.log.cleaning.tally import KeyCount, Prefix, Tally, counted_rows, disk_shares
from stratalog.operations.looking import LookedAt, Partition, UnreadablePartition
from stratalog.operations.read_progress import CountRead, ReadProgress, logs_size
from stratalog.records.kernels.tally import AMOUNTS

_ALL = 1 << 30  # more keys than a tally can have


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUsage:
    """The largest key prefixes of a topic, the bytes of all others, and those of records without a key.

    Control records and batches without a record count as records without a key. `errors` are (path, why) of
    partitions that could not be read to their end.
    """

    topic: str
    counts: tuple[KeyCount, ...]
    rest_size: int
    without_key_size: int
    without_key_count: int = 0
    errors: tuple[tuple[str, str], ...] = ()


def count_keys(
    disk: DiskReader,
    clock: Clock,
    looked_at: Mapping[str, LookedAt],
    prefix: Prefix,
    top: int,
    *,
    on_progress: OnProgress,
) -> tuple[KeyUsage, ...]:
    """The `top` key prefixes of each topic, ordered by topic name; all records are read."""
    sizes = {
        each.directory: logs_size(disk, each.directory)
        for found in looked_at.values()
        for each in found.partitions
    }
    progress = ReadProgress(on_progress, sizes, stage="reading")
    topics = sorted({each.topic_partition.topic for found in looked_at.values() for each in found.partitions})
    return tuple(_topic(disk, clock, looked_at, topic, _Counting(prefix), top, progress) for topic in topics)


def _topic(
    disk: DiskReader,
    clock: Clock,
    looked_at: Mapping[str, LookedAt],
    topic: str,
    counting: _Counting,
    top: int,
    progress: ReadProgress,
) -> KeyUsage:
    errors = []
    for path, found in looked_at.items():
        for each in found.partitions:
            if each.topic_partition.topic != topic:
                continue
            name = each.entry.name
            with (
                found.open(disk, clock, each) as partition,
                progress.part(each.directory, name) as on_read,
            ):
                try:
                    if isinstance(partition, UnreadablePartition):
                        errors.append((join_path(path, name), partition.error))
                    else:
                        counting.count(partition, on_read)
                except StratalogError as error:
                    errors.append((join_path(path, name), str(error)))
    # Sorted again, because the tally returns keys of equal size in random order.
    every = counting.tally.largest("bytes", _ALL)
    counts = tuple(sorted(every, key=lambda count: (-count.bytes, count.key))[:top])
    return KeyUsage(
        topic=topic,
        counts=counts,
        rest_size=max(0, round(counting.with_key) - sum(count.bytes for count in counts)),
        without_key_size=round(counting.without_key),
        without_key_count=counting.without_key_count,
        errors=tuple(errors),
    )


class _Counting:
    """Adds up the records of the partitions of one topic."""

    def __init__(self, prefix: Prefix) -> None:
        self.tally = Tally(prefix)
        self.with_key = self.without_key = 0.0
        self.without_key_count = 0

    def count(self, partition: Partition, on_read: CountRead) -> None:
        reader = RunReader()
        for segment in partition.view.segments:
            with reader.read(segment) as runs:
                for run in runs:
                    self._add(run)
                    on_read(run.size)

    def _add(self, run: DecodedRun) -> None:
        shares = disk_shares(run)
        is_counted = counted_rows(run, 0)
        amounts = np.zeros((len(run.rows), AMOUNTS), np.float64)
        amounts[:, 0] = 1
        amounts[:, 1] = shares
        chosen = np.flatnonzero(is_counted)
        self.tally.add(run.data, run.rows[chosen], amounts[chosen])
        size = float(shares[chosen].sum())
        self.with_key += size
        self.without_key += run.size - size
        self.without_key_count += len(run.rows) - len(chosen)
