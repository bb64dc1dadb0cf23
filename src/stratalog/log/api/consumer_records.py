"""Records as Python values, thousands at a time.

The rows of a chunk become lists, one for each field, and one pass over these lists makes the records. So no
Python code runs for a single record, unless it has headers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratalog.files.names import TopicPartition
from stratalog.records.arrays import MAKERS, RowChunk
from stratalog.records.build import Header
from stratalog.records.kernels.walk import MIXED
from stratalog.records.reader import read_headers
from stratalog.records.rows import RowMemory, RowReader

# The first record of a read waits until a chunk is decoded: a tenth of a millisecond.
_MAX_ROWS = 2048


class ConsumerRecord(NamedTuple):
    """One record, with the fields of kafka-python's ConsumerRecord.

    `timestamp` counts milliseconds, -1 is none; `timestamp_type` is 0 for the producer's clock, 1 for the
    log's. A size of -1 means null (for headers: that there are none). `checksum` is always None: only
    formats before Kafka 0.11 had one for each record.
    """

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    checksum: None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int


class ConsumerReader(RowReader[Iterator[ConsumerRecord]]):
    """Decodes batches to the records of [start_offset, end_offset), without control records."""

    def __init__(
        self, topic_partition: TopicPartition, start_offset: int, end_offset: int, memory: RowMemory
    ) -> None:
        super().__init__(
            start_offset=start_offset,
            end_offset=end_offset,
            max_rows=_MAX_ROWS,
            together=("key", "value"),
            memory=memory,
        )
        self._topic_partition = topic_partition

    def _make(self, chunk: RowChunk) -> Iterator[ConsumerRecord]:
        rows = chunk.rows
        topic, partition = self._topic_partition
        headers, headers_sizes = _headers_of(chunk) if chunk.sums[2] else (repeat(()), repeat(-1))
        fields = zip(
            repeat(topic),
            repeat(partition),
            _epochs_of(chunk),
            rows["offset"].tolist(),
            rows["timestamp"].tolist(),
            repeat(kind) if (kind := chunk.timestamp_type) != MIXED else chunk.timestamp_types().tolist(),
            MAKERS["key"](chunk).to_pylist(),
            MAKERS["value"](chunk).to_pylist(),
            headers,
            repeat(None),
            _sizes(rows["key_size"]),
            _sizes(rows["value_size"]),
            headers_sizes,
        )
        # The same as `ConsumerRecord._make`, without its check of the length.
        return map(tuple.__new__, repeat(ConsumerRecord), fields)


def _sizes(column: NDArray[Any]) -> Iterable[int]:
    """Sizes, -1 for null; if all are equal, one size is repeated, which costs less.

    Any negative size in the file means null.
    """
    first = column[0]
    if (column == first).all():
        return repeat(max(int(first), -1))
    sizes: list[int] = np.maximum(column, -1).tolist()
    return sizes


def _epochs_of(chunk: RowChunk) -> Iterable[int]:
    epochs = chunk.batches["partition_leader_epoch"]
    return repeat(int(epochs[0])) if (epochs == epochs[0]).all() else chunk.of_batch(epochs).tolist()


def _headers_of(chunk: RowChunk) -> tuple[Iterable[tuple[Header, ...]], Iterable[int]]:
    """The headers of each row, and the size of their names and values; -1 for a row without headers."""
    places = zip(chunk.rows["headers_position"].tolist(), chunk.rows["headers_count"].tolist(), strict=True)
    headers = [tuple(read_headers(chunk.data, position, count)) for position, count in places]
    return headers, [
        sum(len(name.encode()) + len(content or b"") for name, content in pairs) if pairs else -1
        for pairs in headers
    ]
