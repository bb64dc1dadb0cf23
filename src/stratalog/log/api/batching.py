"""Divides records among several batches, if a single one would be larger than the topic's
max.message.bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stratalog.errors import RecordTooLargeError
from stratalog.log.log import Log
from stratalog.records.build import BatchOptions, Record, build_batch

_ROOM = 0.95  # aim for this share of the limit: records differ in size, and each batch has a header


def append_in_batches(log: Log, rows: Sequence[Record], options: BatchOptions) -> tuple[int, int]:
    """Append records as several batches, all or none; returns the first and the last offset.

    RecordTooLargeError if a record does not fit into a batch of its own; then nothing was appended.
    """
    size = log.config.max_message_bytes
    epoch = log.epochs.latest_epoch or 0
    while True:
        batches = [*_batches(rows, options, size)]
        try:
            return log.append_all_as_leader(batches, leader_epoch=epoch)
        except RecordTooLargeError:
            if len(batches) == len(rows):
                raise
            size //= 2  # compressed with the topic's codec, a batch became larger


def _batches(rows: Sequence[Record], options: BatchOptions, size: int) -> Iterator[bytes]:
    """Batches of at most `size` bytes, or of a single record; the offsets of each count from 0."""
    first = rows[0].offset
    data = build_batch([row._replace(offset=row.offset - first) for row in rows], options)
    if len(data) <= size or len(rows) == 1:
        yield data
        return
    parts = max(2, -(-len(data) // max(1, int(size * _ROOM))))
    count = -(-len(rows) // parts)
    for at in range(0, len(rows), count):
        yield from _batches(rows[at : at + count], options, size)
