"""Finds batches after the last one of a log, with lower offsets, that hide the log's end from a broker.

After a power cut a file system may bring back blocks of another time. A whole batch in them is as good as any
to a recovery that checks offsets only where an index entry is due. But a broker finds the end of its log by
looking, from the last entry of the index on, for the batch that holds the entry's offset, and since 4.1
(KAFKA-18989) it goes by first offsets: up to one that is higher, then back to the batch before. Where all
that follow are stale no first offset is higher, the last batch does not hold the offset, nothing is found,
and the log ends where its last segment begins, every time that it is opened.
"""

from __future__ import annotations

from typing import NamedTuple

from stratalog.files.reading import DiskReader
from stratalog.records.kernels.memory import Bytes
from stratalog.segment.headers import stream_batches
from stratalog.segment.offset_index import ENTRY_SIZE


class StaleTail(NamedTuple):
    """Where the stale batches begin, and what is wrong with them."""

    position: int
    reason: str


def find_stale_tail(
    disk: DiskReader, path: str, base_offset: int, *, index: bytes, next_offset: int, end: int
) -> StaleTail | None:
    """What hides the end of a log whose last segment is this one; None if a broker finds it.

    `index` is the offset index of its good batches, which reach to byte `end`, and `next_offset` the one
    after the last of them.
    """
    entry = index[-ENTRY_SIZE:]
    last_indexed = base_offset + int.from_bytes(entry[:4], "big")
    if next_offset > last_indexed:
        return None
    start = int.from_bytes(entry[4:], "big")

    def read_into(buffer: Bytes, position: int) -> int:
        return disk.read_into(path, buffer, position)

    position = start
    for chunk in stream_batches(read_into, start, end, path=path):
        if chunk.headers["base_offset"].max() >= last_indexed:
            return None
        if position == start:
            position += int(chunk.headers[0]["size"])
    if position == start:
        return None  # the file has become shorter meanwhile, which a step will notice
    reason = f"offset {next_offset - 1} follows offset {last_indexed}, which hides the end of the log."
    return StaleTail(position, reason)
