"""Checks whether the indexes of a segment match its log, without reading the bodies of batches."""

from __future__ import annotations

from stratalog.errors import CorruptIndexError, CorruptRecordError
from stratalog.limits import INT64_MIN
from stratalog.records.kernels import index as kernel
from stratalog.records.reader import BatchRow
from stratalog.segment.segment_reader import SegmentReader


def sanity_check(segment: SegmentReader) -> BatchRow | None:
    """The last whole batch, None if there is none; CorruptIndexError if the indexes do not match the log.

    CorruptRecordError for damage after the batch of the last index entry. Zeros after the entries are
    ignored. Entries must ascend and point inside the log. The last entry must point at a batch that starts at
    the entry's offset or before it. A log with batches must have an offset index. The bodies of batches are
    not read.
    """
    _check_offset_index(segment)
    last = segment.find_batch(segment.offset_index.last_entry.position, kernel.LAST, 0)
    if segment.time_index.exists:
        segment.time_index.sanity_check(segment.base_offset - 1 if last is None else last.last_offset)
    segment.txn_index.sanity_check()
    return last


def _check_offset_index(segment: SegmentReader) -> None:
    index = segment.offset_index
    if not index.exists:
        if segment.size:
            raise CorruptIndexError(index.path, "the file is missing.")
        return
    index.sanity_check(segment.size)
    last = index.last_entry
    try:
        batch = (
            segment.find_batch(last.position, kernel.OFFSET_AT_LEAST, INT64_MIN) if last.position else None
        )
    except CorruptRecordError as error:
        raise CorruptIndexError(index.path, f"its last entry does not point at a batch: {error}") from error
    if last.position and (batch is None or not batch.base_offset <= last.offset):
        found = (
            "no batch begins there"
            if batch is None
            else f"the batch there starts with offset {batch.base_offset}"
        )
        raise CorruptIndexError(index.path, f"its last entry is for offset {last.offset}; {found}.")
