"""Makes the records of a run of batches readable in one array, whatever their codec and format.

A run without compression stays where it is. Where one batch of a run is compressed, all of them go into the
scratch, one behind the other, so that a decoder always reads from a single array: copying the few plain
batches of a mixed run costs less than a decoder that looks up its source for each record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stratalog.errors import CorruptRecordError, InvalidRecordError
from stratalog.records import legacy
from stratalog.records.compression import CODEC_MASK, Scratch, decompress_into
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.walk import BatchTable

# A run ends once this much is unpacked: the decoder then finds it in the CPU's second cache still.
RUN_SIZE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`batches` of one family (v2, or v0 and v1) whose records lie in `data` where their rows say.

    `problem` is what is wrong with the batch right behind them, which is then the last of its walk.
    """

    data: Bytes
    batches: BatchTable
    is_legacy: bool
    problem: CorruptRecordError | None = None


def next_run(data: Bytes, headers: BatchTable, start: int, scratch: Scratch, limit: int) -> Run:
    """The longest run from row `start` on; overwrites where its rows say that the records lie."""
    magic = headers["magic"]
    is_legacy = bool(magic[start] < 2)
    other = np.flatnonzero((magic[start:] < 2) != is_legacy)
    stop = start + int(other[0]) if other.size else len(headers)
    codecs = headers["attributes"][start:stop] & CODEC_MASK
    if not codecs.any():
        sizes = np.cumsum(headers["size"][start:stop], dtype=np.int64)
        stop = start + max(1, int(np.searchsorted(sizes, RUN_SIZE)))
        batches = headers[start:stop]
        if is_legacy:
            # The decoder adds the base to each inner offset, and a plain message carries its own.
            batches["base_offset"] = 0
        return Run(data=data, batches=batches, is_legacy=is_legacy)
    scratch.used = 0
    view = data.data
    for index in range(start, stop):
        if scratch.used >= RUN_SIZE:
            stop = index
            break
        row = headers[index]
        try:
            _unpack(view, row, int(codecs[index - start]), scratch, limit)
        except CorruptRecordError as error:
            problem = error.at(position=int(row["position"]))
            return Run(data=scratch.array, batches=headers[start:index], is_legacy=is_legacy, problem=problem)
    return Run(data=scratch.array, batches=headers[start:stop], is_legacy=is_legacy)


def _unpack(view: memoryview, row: np.void, codec: int, scratch: Scratch, limit: int) -> None:
    """Put the records of one batch behind what the scratch holds, and tell its row."""
    if row["magic"] < 2:
        legacy.unpack(view, row, codec, scratch, limit)
        return
    start, end = int(row["records_position"]), int(row["records_end"])
    if codec and start == end and row["records_count"] == 0:
        size = 0  # compaction leaves empty batches without a codec, but an empty stream is harmless
    else:
        size = decompress_into(codec, view[start:end], scratch, magic=2, limit=limit)
    row["records_position"] = scratch.used
    scratch.used += size
    row["records_end"] = scratch.used


PROBLEMS = {
    2: "a count below zero, or above what its bytes can hold",
    3: "a variable-length number that does not end where it must",
    4: "a size that reaches behind its end",
    5: "a record that is not as long as it says",
    6: "bytes behind its last record",
    7: "fewer records than its header counts",
    8: "an inner message that is neither v0 nor v1",
    9: "an inner message that is compressed itself",
}


def invalid_record(row: np.void, problem: int) -> InvalidRecordError:
    """The error for what a decoder found in this batch."""
    return InvalidRecordError(
        f"the batch of offsets {row['base_offset']} to {row['last_offset']} has {PROBLEMS[problem]}. "
        "Its checksum holds, so it was written like this: by a faulty producer, or with a faulty codec.",
        position=int(row["position"]),
    )
