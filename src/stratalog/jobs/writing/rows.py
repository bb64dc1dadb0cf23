"""Turns rows of a DataFrame into records: the columns of Kafka's sink, and each row's partition.

A row goes to the partition in its column `partition`, otherwise to the one that Kafka's producer would choose
for its key. All rows without a key in an Arrow batch go to one partition, those in the next Arrow batch to
the next partition. A producer, too, stays with a partition until a batch is full.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stratalog.errors import UsageError
from stratalog.files.names import TopicPartition
from stratalog.jobs.writing.target import TopicTarget, WriteTarget
from stratalog.records.batch import NO_TIMESTAMP
from stratalog.records.build import binary_parts
from stratalog.records.kernels.hash import choose_partitions


class PartitionRows(NamedTuple):
    """Rows for one partition, with those of the columns key, value, timestamp and headers that exist."""

    topic: TopicTarget
    topic_partition: TopicPartition
    rows: pa.RecordBatch


class RowRouter:
    """Splits the batches of one task by partition. `first` is the first partition for rows without keys."""

    def __init__(self, target: WriteTarget, *, first: int) -> None:
        self._target = target
        self._turn = first

    def split(self, batch: pa.RecordBatch, now_ms: int) -> Iterator[PartitionRows]:
        """The rows of each partition, in their order; UsageError for rows that no partition can take."""
        if not batch.num_rows:
            return
        records = _records_of(batch, now_ms)
        wanted = batch.column("partition") if "partition" in batch.schema.names else None
        for topic, rows in self._by_topic(batch):
            own = records if rows is None else records.take(rows)
            asked = wanted if rows is None or wanted is None else wanted.take(rows)
            yield from _by_partition(topic, own, self._partitions(topic, own, asked))
        self._turn += 1

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[TopicTarget, pa.Array | None]]:
        """Each topic with the numbers of its rows; None for all rows."""
        if self._target.options.topic is not None:
            yield self._target.topic(self._target.options.topic), None
            return
        column = batch.column("topic")
        if column.null_count:
            raise UsageError("a row has no topic: fill the column topic, or give the option topic.")
        encoded = column.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        if len(names) == 1:
            yield self._target.topic(names[0]), None
            return
        for number, name in enumerate(names):
            yield self._target.topic(name), pc.indices_nonzero(pc.equal(encoded.indices, number))

    def _partitions(
        self, topic: TopicTarget, records: pa.RecordBatch, asked: pa.Array | None
    ) -> NDArray[np.int32]:
        """The partition of each row."""
        count = topic.partitions_count
        chosen = np.full(records.num_rows, self._turn % count, np.int32)
        if count > 1 and "key" in records.schema.names:
            choose_partitions(*binary_parts(records.column("key")), count, chosen)
        if asked is not None:
            given = asked.cast(pa.int64())
            outside = given.filter(pc.or_(pc.less(given, 0), pc.greater_equal(given, count)))
            if len(outside):
                raise UsageError(
                    f"a row is for partition {outside[0]} of the topic {topic.name}, which has {count} "
                    f"(0 to {count - 1}). Leave the column partition null where the key decides."
                )
            is_given = given.is_valid().to_numpy(zero_copy_only=False)
            chosen = np.where(is_given, given.fill_null(0).to_numpy(zero_copy_only=False), chosen).astype(
                np.int32
            )
        return chosen


def _by_partition(
    topic: TopicTarget, records: pa.RecordBatch, partitions: NDArray[np.int32]
) -> Iterator[PartitionRows]:
    if (partitions == partitions[0]).all():
        yield _checked(topic, int(partitions[0]), records)
        return
    # All rows are copied once, in sorted order, and each partition gets a slice: copying them one partition
    # at a time would cost no less.
    order = np.argsort(partitions, kind="stable")
    in_order = records.take(pa.array(order))
    numbers, starts = np.unique(partitions[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    for number, start, end in zip(numbers.tolist(), starts.tolist(), ends, strict=True):
        yield _checked(topic, number, in_order.slice(start, end - start))


def _checked(topic: TopicTarget, number: int, rows: pa.RecordBatch) -> PartitionRows:
    key = TopicPartition(topic.name, number)
    refusal = topic.refusals.get(number)
    if refusal is not None:
        raise UsageError(f"{key} cannot be written to: {refusal}")
    if topic.config.compact and ("key" not in rows.schema.names or rows.column("key").null_count):
        raise UsageError(
            f"a row for {key} has no key, and the topic is compacted (cleanup.policy): a broker would "
            "refuse it."
        )
    return PartitionRows(topic, key, rows)


def _records_of(batch: pa.RecordBatch, now_ms: int) -> pa.RecordBatch:
    """The columns that become parts of records; a row without a timestamp gets the current time."""
    columns = {}
    for name in ("key", "value"):
        if name in batch.schema.names:
            columns[name] = batch.column(name).cast(pa.binary())
    if "headers" in batch.schema.names:
        columns["headers"] = batch.column("headers")
    columns["timestamp"] = _timestamps(batch, now_ms)
    return pa.RecordBatch.from_pydict(columns)


def _timestamps(batch: pa.RecordBatch, now_ms: int) -> pa.Array:
    if "timestamp" not in batch.schema.names:
        return pa.array(np.full(batch.num_rows, now_ms, np.int64))
    column = batch.column("timestamp")
    if pa.types.is_timestamp(column.type):
        # The time zone is dropped, which does not change the instant: with it Arrow rounds local times, and
        # refuses those of the hour that is repeated when summer time ends.
        column = column.view(pa.timestamp(column.type.unit))
        column = pc.floor_temporal(column, unit="millisecond").cast(pa.timestamp("ms"))
    times = column.cast(pa.int64()).fill_null(now_ms)
    earliest = pc.min(times).as_py()
    if earliest < NO_TIMESTAMP:  # -1 is allowed: records of a log without timestamps have it
        raise UsageError(
            f"a row has the timestamp {earliest} ms, which is before 1970: Kafka has no such times. Leave it "
            "null for the current time."
        )
    return times
