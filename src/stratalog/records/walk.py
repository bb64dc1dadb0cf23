"""Walks through the batches of a buffer: the headers of all whole batches, and why the walk ended.

A scan of a segment needs only this: lengths lead from batch to batch, checksums show which are intact, and no
batch is unpacked.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from stratalog.errors import CorruptRecordError
from stratalog.limits import INT64_MAX
from stratalog.records.kernels import walk as kernel
from stratalog.records.kernels.crc32c import crc32_zlib, crc32c
from stratalog.records.kernels.memory import Bytes, byte_array
from stratalog.records.kernels.walk import BATCH, BatchTable

DEFAULT_ROWS = 1024  # of 96 bytes: stays in the CPU's second cache beside the batches


class WalkStop(Enum):
    """Why a walk ended. A torn tail is how a crash looks, not damage."""

    END = kernel.END
    TORN_TAIL = kernel.TORN
    BAD_LENGTH = kernel.BAD_LENGTH
    BAD_MAGIC = kernel.BAD_MAGIC
    TABLE_FULL = kernel.FULL


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The batches found, and the position to continue from.

    `headers` is a view of the table's rows (dtype `BATCH`), valid until the table is used again.
    `next_position` is the start of the first batch that is not in `headers`.
    """

    headers: BatchTable
    next_position: int
    stop: WalkStop


def new_table(rows: int = DEFAULT_ROWS) -> BatchTable:
    """A table for walks, which can be reused."""
    return np.zeros(rows, BATCH)


def walk_batches(
    buffer: Any,  # any object with the buffer protocol
    *,
    start: int = 0,
    end: int | None = None,
    table: BatchTable | None = None,
    check_crc: bool = True,
    max_size: int = INT64_MAX,
) -> Walk:
    """Walk buffer[start:end] up to its end, the first damage, `max_size` bytes or a full table.

    A batch whose checksum is wrong has `valid` False, and the walk continues: its length was plausible.
    """
    data = byte_array(buffer)
    end = data.size if end is None else end
    if not 0 <= start <= end <= data.size:
        raise IndexError(f"[{start}, {end}) is not inside a buffer of {data.size} bytes")
    table = new_table() if table is None else table
    count, position, stop = kernel.walk(data, start, end, table, check_crc, max_size)
    return Walk(headers=table[:count], next_position=position, stop=WalkStop(stop))


def explain_stop(data: Bytes, position: int, end: int, stop: WalkStop) -> str:
    """One sentence on why no batch could be read at `position`, with the numbers found there."""
    left = end - position
    if stop is WalkStop.TORN_TAIL:
        return f"the last batch is cut off: only {left} bytes of it are there."
    length = int.from_bytes(data[position + 8 : position + 12].tobytes(), "big", signed=True)
    magic = int(data[position + 16])
    if stop is WalkStop.BAD_MAGIC:
        return f"magic is {magic}; Kafka has written 0, 1 and 2."
    if not data[position : min(end, position + 4096)].any():
        return f"there are zeros where a batch should start, {left} bytes before the end."
    return f"a batch of magic {magic} cannot have the length {length} that its header says."


def wrong_crc(data: Bytes, row: np.void) -> CorruptRecordError:
    """The error for a batch with a wrong checksum."""
    kind, start = ("CRC-32C", 21) if row["magic"] == 2 else ("CRC-32", 16)
    position = int(row["position"])
    compute = crc32c if row["magic"] == 2 else crc32_zlib
    found = int(compute(data, position + start, position + int(row["size"])))
    return CorruptRecordError(
        f"batch {kind} is {found:#010x}, its header says {int(row['crc']):#010x}.", position=position
    )
