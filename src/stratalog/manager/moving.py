"""Moves a log to another log directory: a copy is filled there, and replaces the log when complete.

Kafka: ReplicaAlterLogDirsThread, LogManager.replaceCurrentWithFutureLog
"""

from __future__ import annotations

import numpy as np

from stratalog.errors import StratalogError, UnexpectedAppendOffsetError
from stratalog.files.paths import join_path
from stratalog.limits import INT32_MAX
from stratalog.log.log import Log
from stratalog.log.offsets import Cuts
from stratalog.log.reading import Isolation
from stratalog.manager.registry import home_of
from stratalog.records.kernels.memory import byte_array
from stratalog.records.walk import walk_batches

_CHUNK_SIZE = 1 << 20
_ANY_EPOCH = INT32_MAX  # accepts batches of all leaders: the source log has checked them


def catch_up(source: Log, copy: Log) -> int:
    """Append to the copy the batches that it lacks, byte for byte; returns how many bytes.

    The log may be changed meanwhile. Records that are appended to it from now on may be left for the next
    call, so that this call ends. Each round first removes from the copy what was cut off the log since the
    last one. Only then is the end of the copy also the end of a batch of the log, or of a gap, and the next
    read can begin there.
    """
    done, target = 0, source.log_end_offset
    while True:
        cuts = source.cuts
        _follow_cuts(source, copy, cuts)
        end = source.log_end_offset
        if copy.log_end_offset >= min(target, end):
            return done
        size = min(_CHUNK_SIZE, copy.config.segment_size)  # the copy's segments may be smaller than the log's
        records = _read(source, copy.log_end_offset, size, cuts)
        if records:
            done += _append(copy, records)
        elif records is not None:
            copy.advance_to(end)  # compaction has left no records up to there


def _follow_cuts(source: Log, copy: Log, cuts: Cuts) -> None:
    """Remove from the copy what the log has lost at its end and at its start."""
    end = min(cuts.lowest_end, source.log_end_offset)
    if end < copy.log_end_offset:
        copy.truncate_to(end)
    source.forget_cuts(cuts)  # not earlier: if this is interrupted before, the cuts are still known
    start = source.log_start_offset
    first = max(start, source.segments.first.base_offset)  # an emptied log may start below its first segment
    if copy.log_end_offset < first:
        copy.truncate_fully_and_start_at(first, start)


def _read(source: Log, offset: int, size: int, cuts: Cuts) -> bytes | None:
    """Batches of the log; None if it was cut since, or has lost this offset.

    Reads take no lock: during a truncation and an append, a read may return old and new bytes mixed, or find
    no batch at all.
    """
    try:
        records = source.read(offset, size, isolation=Isolation.LOG_END).records
    except StratalogError:
        if source.cuts.cuts_count == cuts.cuts_count and source.log_start_offset <= offset:
            raise
        return None
    return records if source.cuts.cuts_count == cuts.cuts_count else None


def _append(copy: Log, records: bytes) -> int:
    try:
        return copy.append_as_follower(records, leader_epoch=_ANY_EPOCH).size
    except UnexpectedAppendOffsetError as error:
        is_empty = copy.log_start_offset == copy.log_end_offset
        if not is_empty or error.last_offset < copy.log_end_offset:
            raise
        # The log starts inside its first batch. The copy, for now, starts where that batch begins.
        copy.truncate_fully_and_start_at(error.first_offset)
        return copy.append_as_follower(records, leader_epoch=_ANY_EPOCH).size


def agreement(source: Log, copy: Log) -> int:
    """The offset up to which the copy has exactly the log's batches; the copy's end if all are equal.

    It is the end of the last equal batch: after that, either log may have a batch where the other has a gap.
    """
    offset = 0
    while True:
        # Read again in each round: records may be deleted or truncated meanwhile.
        cuts, start = source.cuts, source.log_start_offset
        if copy.log_start_offset > start:
            # Records were deleted in the copy, and a kill came before they were deleted in the log.
            return start
        offset = max(offset, start)
        end = min(source.log_end_offset, copy.log_end_offset)
        if offset >= end:
            return end
        ours = byte_array(copy.read(offset, _CHUNK_SIZE, isolation=Isolation.LOG_END).records)
        found = _read(source, offset, _CHUNK_SIZE, cuts)
        if found is None:
            continue
        theirs = byte_array(found)
        headers = walk_batches(ours, check_crc=False).headers
        others = walk_batches(theirs, check_crc=False).headers
        if not len(headers) or not len(others):
            # One of them has no more batches. The other one may continue, but only after their common end.
            is_equal = all(int(row["base_offset"]) >= end for row in (*headers, *others))
            return end if is_equal else offset
        for row, _ in zip(headers, others, strict=False):
            start, stop = int(row["position"]), int(row["position"] + row["size"])
            if not np.array_equal(ours[start:stop], theirs[start:stop]):
                return offset
            offset = int(row["last_offset"]) + 1


def take_marks_of(copy: Log, source: Log) -> None:
    """Flush the copy to the device, and give it the marks of the log it replaces."""
    start, high_watermark = source.log_start_offset, source.high_watermark
    if start > copy.log_start_offset:
        # A log refuses to raise its start above its high watermark. The source can have such a start all the
        # same: its high watermark moves to the first offset of its batch, and the start may be inside that
        # batch.
        copy.update_high_watermark(max(start, high_watermark))
        copy.increment_log_start_offset(start)
    copy.update_high_watermark(high_watermark)
    copy.take_over_producers(source)
    copy.flush(force=True)


def take_name(copy: Log) -> None:
    """Give the copy the name of a live log."""
    copy.rename_directory(join_path(home_of(copy), str(copy.topic_partition)))
