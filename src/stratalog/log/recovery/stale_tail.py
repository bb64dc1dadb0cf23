"""Finds stale batches after the last batch of a log: their lower offsets hide the log's end from a broker.

After a power cut a file system may bring back old blocks. If these blocks contain a whole batch, recovery
accepts it, because it checks offsets only where an index entry is due. But when a broker looks for the end of
its log, it searches from the last index entry on for the batch that contains the entry's offset. Since 4.1
(KAFKA-18989) it compares first offsets: it reads up to the first batch with a higher first offset, and takes
the batch before that one. If only stale batches follow, no first offset is higher, and the last batch does
not contain the offset. So nothing is found, and whenever the log is opened, it ends where its last segment
begins.
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
    """The stale batches that hide the end of a log whose last segment is this one; None if a broker finds the
    end.

    `index` is the offset index of its good batches, which end at byte `end`; `next_offset` is the offset
    after them.
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
        return None  # the file became shorter meanwhile; a step will notice that
    reason = f"offset {next_offset - 1} follows offset {last_indexed}, which hides the end of the log."
    return StaleTail(position, reason)
