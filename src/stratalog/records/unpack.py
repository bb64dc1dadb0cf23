"""Decompresses a run of batches, so that all their records are in one array, whatever their codec and format.

A run without compression stays where it is. If one batch of a run is compressed, all batches are put into the
scratch, one after the other, so that a decoder always reads from a single array. Copying the few plain
batches of a mixed run costs less than looking up the source of each record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stratalog.errors import CorruptRecordError, InvalidRecordError
from stratalog.records import legacy
from stratalog.records.batch import RECORD_BATCH_OVERHEAD
from stratalog.records.compression import CODEC_MASK, Scratch, decompress_into
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.walk import BatchTable, survey

# A run ends when this much is unpacked, so that the bytes are still in the CPU's second-level cache when they
# are decoded.
RUN_SIZE = 512 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`batches` of one family (v2, or v0 and v1) whose rows say where their records are in `data`.

    `problem` is what is wrong with the batch after these, if that is why the run ends.
    """

    data: Bytes
    batches: BatchTable
    is_legacy: bool
    problem: CorruptRecordError | None = None


def next_run(
    data: Bytes, headers: BatchTable, start: int, scratch: Scratch, limit: int, run_size: int | None = None
) -> Run:
    """The longest run from row `start` on; may overwrite positions and base offsets in its rows.

    It ends when `run_size` bytes are unpacked, RUN_SIZE by default. A run without compression is not copied,
    so its size is not limited here.
    """
    _, _, stop, has_codec = survey(headers, start)
    is_legacy = bool(headers["magic"][start] < 2)
    if not has_codec:
        batches = headers[start:stop]
        if is_legacy:
            # The decoder adds the base to each inner offset, but a plain message has its full offset.
            batches["base_offset"] = 0
        return Run(data=data, batches=batches, is_legacy=is_legacy)
    scratch.used = 0
    unpack = _unpack_legacy if is_legacy else _unpack
    codecs = headers["attributes"][start:stop] & CODEC_MASK
    return unpack(data, headers[start:stop], codecs, scratch, limit, run_size or RUN_SIZE)


def _unpack(
    data: Bytes,
    batches: BatchTable,
    codecs: NDArray[np.int16],
    scratch: Scratch,
    limit: int,
    run_size: int,
) -> Run:
    """Decompress v2 batches one after the other.

    Uses plain lists, because a row's fields are slow to read.
    """
    view = data.data
    places, problem = [0], None
    columns = (codecs, batches["records_position"], batches["records_end"], batches["records_count"])
    for codec, start, end, count in zip(*(column.tolist() for column in columns), strict=True):
        if scratch.used >= run_size:
            break
        try:
            # Kafka reads no bytes of a batch without records. An empty section is not a valid stream, so it
            # is not decompressed; the decoder then reports the missing records.
            readable = count and end > start
            bound = limit if codec else end - start  # an uncompressed batch keeps its size
            size = decompress_into(codec, view[start:end], scratch, limit=bound) if readable else 0
        except CorruptRecordError as error:
            problem = error.at(position=start - RECORD_BATCH_OVERHEAD)
            break
        scratch.used += size
        places.append(scratch.used)
    unpacked = batches[: len(places) - 1]
    unpacked["records_position"] = places[:-1]
    unpacked["records_end"] = places[1:]
    return Run(data=scratch.array, batches=unpacked, is_legacy=False, problem=problem)


def _unpack_legacy(
    data: Bytes,
    batches: BatchTable,
    codecs: NDArray[np.int16],
    scratch: Scratch,
    limit: int,
    run_size: int,
) -> Run:
    view = data.data
    for index, codec in enumerate(codecs.tolist()):
        if scratch.used >= run_size:
            return Run(data=scratch.array, batches=batches[:index], is_legacy=True)
        try:
            legacy.unpack(view, batches[index], codec, scratch, limit)
        except CorruptRecordError as error:
            problem = error.at(position=int(batches[index]["position"]))
            return Run(data=scratch.array, batches=batches[:index], is_legacy=True, problem=problem)
    return Run(data=scratch.array, batches=batches, is_legacy=True)


PROBLEMS = {
    2: "a count below zero, or above what its bytes can hold",
    3: "a variable-length number that does not end where it must",
    4: "a size that reaches past its end",
    5: "a record that is not as long as it says",
    6: "bytes after its last record",
    7: "fewer records than its header counts",
    8: "an inner message that is compressed itself",
}


def invalid_record(row: np.void, problem: int) -> InvalidRecordError:
    """The error for the problem that a decoder found in this batch."""
    return InvalidRecordError(
        f"the batch of offsets {row['base_offset']} to {row['last_offset']} has {PROBLEMS[problem]}. Its "
        "checksum matches, so a faulty producer or codec wrote it like this.",
        position=int(row["position"]),
    )
