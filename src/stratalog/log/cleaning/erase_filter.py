"""Removes the erased records from a run of batches.

Batches that lose nothing are copied unchanged, old formats included. A batch that loses records is rewritten
with its offsets, its sequence and its producer; one that loses all of them stays as an empty batch. So a
broker finds the same batches as before, one for one. The end of the log, the state of every producer, open
and aborted transactions and the leader epochs follow from their headers, so none of these change.

A message of format 0 or 1 that loses records becomes a batch of format 2, as when it is compacted; there is
no empty message in the old formats.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratalog.log.cleaning.erase_selection import Matcher
from stratalog.log.cleaning.filter import compress_spans
from stratalog.log.cleaning.parts import BatchFile
from stratalog.log.cleaning.runs import DecodedRun
from stratalog.records.batch import (
    LAST_OFFSET_DELTA_AT,
    LOG_OVERHEAD,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    write_crc,
)
from stratalog.records.kernels import clean as kernel
from stratalog.records.kernels.clean import GROWTH_OF_A_RECORD, VERDICT
from stratalog.records.kernels.memory import Bytes, byte_array
from stratalog.records.kernels.walk import BatchTable
from stratalog.records.walk import new_table, walk_batches

# What happens to a batch.
_COPIED, _REWRITTEN, _OLD_AND_EMPTY = 0, 1, 2


class ErasedRun(NamedTuple):
    """What is left of a run: its bytes (`data`), and a row for each batch in them (`batches`).

    Valid until the next run is requested.
    """

    data: Bytes
    batches: BatchTable
    max_offset: int
    changed: NDArray[np.int64]
    """The numbers of the changed batches, counted from the first of the file."""


def erase_runs(file: BatchFile, matcher: Matcher) -> closing[Generator[ErasedRun, None, None]]:
    """The batches of a file without the records of a selection, run by run.

    As for `RunReader.read`: at the end of the context nothing reads the file any more.
    """
    return closing(_erased(file, matcher))


def _erased(file: BatchFile, matcher: Matcher) -> Generator[ErasedRun, None, None]:
    batches_before = 0
    with matcher.reader.read(file) as runs:
        for run in runs:
            matcher.on_read(run.size)
            gone, _ = matcher.match(run)
            changed = np.unique(run.rows["batch"][gone]).astype(np.int64)
            data = _written(run, gone, changed) if len(changed) else _as_it_is(run, 0, len(run.batches))
            headers = walk_batches(data, table=new_table(len(run.batches)), check_crc=False).headers
            yield ErasedRun(
                data=data,
                batches=headers,
                max_offset=int(headers["last_offset"][-1]),
                changed=changed + batches_before,
            )
            batches_before += len(run.batches)


def _as_it_is(run: DecodedRun, first: int, last: int) -> Bytes:
    """The bytes of the batches [first, last), which follow each other."""
    start, end = run.batches[first], run.batches[last - 1]
    return run.original[int(start["position"]) : int(end["position"]) + int(end["size"])]


def _written(run: DecodedRun, gone: NDArray[np.bool_], changed: NDArray[np.int64]) -> Bytes:
    count = len(run.batches)
    row_edges = np.searchsorted(run.rows["batch"], np.arange(count + 1))
    gone_before = np.concatenate([[0], np.cumsum(gone)])
    gone_counts = np.diff(gone_before[row_edges])
    kept_counts = np.diff(row_edges) - gone_counts
    fates = np.full(count, _COPIED)
    fates[changed] = _REWRITTEN
    fates[changed[(kept_counts[changed] == 0) & (run.batches["magic"][changed] < 2)]] = _OLD_AND_EMPTY
    edges = [0, *(np.flatnonzero(np.diff(fates)) + 1).tolist(), count]
    parts: list[Bytes] = []
    for first, last in pairwise(edges):
        if fates[first] == _COPIED:
            parts.append(_as_it_is(run, first, last))
        elif fates[first] == _REWRITTEN:
            parts.append(_rewritten(run, gone, kept_counts, row_edges, range(first, last)))
        else:
            parts += [_empty_batch(row) for row in run.batches[first:last]]
    return byte_array(b"".join(part.data for part in parts))


def _rewritten(
    run: DecodedRun,
    gone: NDArray[np.bool_],
    kept_counts: NDArray[np.int64],
    row_edges: NDArray[np.int64],
    which: range,
) -> Bytes:
    """Neighbouring batches that all lose records, written by the cleaner's kernel."""
    batches = run.batches[which.start : which.stop]
    first_row, end_row = int(row_edges[which.start]), int(row_edges[which.stop])
    verdicts = np.zeros(len(batches), VERDICT)
    verdicts["first_row"] = row_edges[which.start : which.stop] - first_row
    verdicts["rows_count"] = np.diff(row_edges[which.start : which.stop + 1])
    verdicts["kept_count"] = kept_counts[which.start : which.stop]
    verdicts["keeps_empty"] = True
    unpacked = int((batches["records_end"] - batches["records_position"]).sum())
    most = unpacked + RECORD_BATCH_OVERHEAD * len(batches) + GROWTH_OF_A_RECORD * (end_row - first_row)
    out = np.empty(most, np.uint8)
    spans = np.empty((len(batches), 2), np.int64)
    size, pending, refused = kernel.write_batches(
        run.original,
        run.data,
        batches,
        run.rows[first_row:end_row],
        verdicts,
        ~gone[first_row:end_row],
        -1,  # no batch gets a delete horizon here; a batch keeps the one that it has, unless it becomes empty
        out,
        spans,
    )
    assert refused < 0, "old messages without a record are written elsewhere"
    if batches["magic"][0] < 2:
        _keep_last_offsets(batches, out, spans[:pending])
    return compress_spans(out[:size], spans[:pending])


def _keep_last_offsets(batches: BatchTable, out: Bytes, spans: NDArray[np.int64]) -> None:
    """Keep the last offset of old sets.

    The cleaner's kernel would let them end at the last message that stays, and the log might then end
    earlier.
    """
    for (start, _), last_offset in zip(spans.tolist(), batches["last_offset"].tolist(), strict=True):
        base_offset = BatchHeader.unpack(out.data, start).base_offset
        at = start + LAST_OFFSET_DELTA_AT
        out[at : at + 4] = np.frombuffer((last_offset - base_offset).to_bytes(4, "big"), np.uint8)


def _empty_batch(row: np.void) -> Bytes:
    """The empty batch in place of an old message that lost all records; it keeps offset and time."""
    header = BatchHeader(
        base_offset=int(row["last_offset"]),
        batch_length=RECORD_BATCH_OVERHEAD - LOG_OVERHEAD,
        partition_leader_epoch=NO_PARTITION_LEADER_EPOCH,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=0,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=int(row["max_timestamp"]),
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        records_count=0,
    )
    batch = bytearray(header.pack())
    write_crc(batch, 0, len(batch))
    return byte_array(batch)
