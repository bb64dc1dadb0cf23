"""From where to where a partition is read: its start, its valid end or last stable offset, what was aborted.

`latest` is the end of the valid bytes: behind the last batch of the newest segment that is whole and whose
checksum holds, whatever a crash left behind it. A reader of committed records ends at the first record of a
transaction that is still open.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from stratalog.errors import CorruptIndexError, CorruptRecordError, OffsetOutOfRangeError, UsageError
from stratalog.files.names import TopicPartition
from stratalog.jobs.reading.options import EARLIEST, LATEST, Bound, OnCorruption, ReadOptions, listed
from stratalog.jobs.reading.split import AbortedRange
from stratalog.log.api.view import LogView
from stratalog.segment.headers import walk_file
from stratalog.segment.resuming import next_batch
from stratalog.segment.segment import LogSegment

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """What a read may see of a partition: [start_offset, end_offset), less what was aborted."""

    start_offset: int
    end_offset: int  # the last stable offset for a reader of committed records
    valid_end_offset: int
    valid_size: int  # of the newest segment
    aborted: tuple[AbortedRange, ...] = ()


def ends_of(
    view: LogView,
    *,
    read_committed: bool,
    recovery_point: int | None = 0,
    passes_open: bool = False,
    on_corruption: OnCorruption = OnCorruption.SKIP,
) -> Ends:
    """The marks of a log as it is now; without a recovery point it was closed in order.

    A log that was closed has nothing behind its last batch: CorruptRecordError, unless that is to be skipped.
    With `passes_open` committed records are read up to the end, past a transaction that is open and without
    its records: as a coordinator loads its topic.
    """
    start = view.log_start_offset
    was_closed = recovery_point is None
    if was_closed and on_corruption is OnCorruption.FAIL:
        _check_tail(view)
    valid_end, valid_size = _valid_end(view, was_closed=was_closed)
    end = valid_end
    aborted: tuple[AbortedRange, ...] = ()
    if read_committed:
        with _damage_in_words(view, "what became of transactions", "isolation=read_uncommitted"):
            aborted = _aborted(view, recovery_point)
            if passes_open:
                aborted += tuple((*each, valid_end) for each in view.undecided())
            else:
                end = min(view.last_stable_offset, valid_end)
    return Ends(
        start_offset=min(start, end),
        end_offset=end,
        valid_end_offset=valid_end,
        valid_size=valid_size,
        aborted=aborted,
    )


def range_of(view: LogView, ends: Ends, options: ReadOptions) -> tuple[int, int]:
    """[start, end) of one partition by the options; OffsetOutOfRangeError for offsets it does not have."""
    partition = view.topic_partition
    start = _offset(view, ends, options.starting, if_no_match=None)
    if start is None:
        if not options.start_late_if_no_match:
            raise UsageError(
                f"{options.starting.option}: {partition} has no record at or after that time. With "
                "startingOffsetsByTimestampStrategy=latest it is read from its end on, which is nothing."
            )
        start = ends.end_offset
    end = _offset(view, ends, options.ending, if_no_match=ends.end_offset)
    assert end is not None
    return (
        _within(start, view, ends, options, options.starting.option),
        _within(end, view, ends, options, options.ending.option),
    )


def check_complete(bound: Bound, partitions: list[TopicPartition]) -> None:
    """UsageError unless offsets or times by partition name exactly the partitions that are read."""
    named = bound.offsets if bound.offsets is not None else bound.timestamps
    if named is None:
        return
    missing = sorted(set(partitions) - set(named))
    if missing:
        raise UsageError(
            f"{bound.option} says nothing for {listed(missing)}: name every partition that is read, with "
            f"{EARLIEST} for the earliest and {LATEST} for the latest offset."
        )
    strange = sorted(set(named) - set(partitions))
    if strange:
        raise UsageError(f"{bound.option} names {listed(strange)}, which this read does not have.")


def _offset(view: LogView, ends: Ends, bound: Bound, *, if_no_match: int | None) -> int | None:
    partition = view.topic_partition
    timestamp = bound.timestamp if bound.timestamps is None else bound.timestamps[partition]
    if timestamp is not None and timestamp >= 0:
        with _damage_in_words(view, "where a time begins", "offsets instead of times"):
            found = view.first_not_before(timestamp)
        # As a broker's answer to a reader of committed records, who is told nothing of what lies behind.
        return if_no_match if found is None or found.offset >= ends.end_offset else found.offset
    if timestamp is not None:
        mark = timestamp
    else:
        mark = bound.mark if bound.offsets is None else bound.offsets[partition]
    return {EARLIEST: ends.start_offset, LATEST: ends.end_offset}.get(mark, mark)


@contextmanager
def _damage_in_words(view: LogView, what: str, remedy: str) -> Iterator[None]:
    """Damage that keeps a read from being planned, told with the partition and a way around it."""
    try:
        yield
    except CorruptRecordError as error:
        raise type(error)(
            f"{error.reason} The headers of {view.topic_partition} were read to know {what}, and this is in "
            f"the way. Look with `stratalog dump`; with {remedy} and onCorruption=skip the rest is read.",
            position=error.position,
            path=error.path,
        ) from error


def _within(offset: int, view: LogView, ends: Ends, options: ReadOptions, option: str) -> int:
    start, end = ends.start_offset, ends.end_offset
    if start <= offset <= end:
        return offset
    if options.fail_on_data_loss:
        raise OffsetOutOfRangeError(
            f"{option}: {view.topic_partition} in {view.directory} has no offset {offset}; it has {start} to "
            f"{end}. Ask for offsets within these, or set failOnDataLoss=false to get what there is.",
            offset=offset,
            valid=(start, end),
        )
    logger.warning("%s: %s has no offset %d, only %d to %d", option, view.topic_partition, offset, start, end)
    return min(max(offset, start), end)


def _check_tail(view: LogView) -> None:
    tail = view.strange_tail()
    if tail is None:
        return
    position, end = tail
    raise CorruptRecordError(
        f"the log was closed in order, and goes on for {end - position} bytes that are no whole batch: it is "
        f"damaged or was not copied whole. What {view.topic_partition} has from offset {view.log_end_offset} "
        "on is lost. Look with `stratalog dump`; to read what is before it, set onCorruption=skip.",
        position=position,
        path=view.segments.active.log_path,
    )


def _valid_end(view: LogView, *, was_closed: bool) -> tuple[int, int]:
    """(the offset, the size of the newest segment) behind the last batch whose checksum holds.

    A log that was closed in order has no such tail: a wrong checksum there is damage, which the reader will
    name. So is one with a good batch behind it.
    """
    offset = view.log_end_offset
    if not len(view.segments):
        return offset, 0
    active = view.segments.active
    if was_closed:
        return _end_behind_damage(view)
    try:
        start = active.offset_index.last_entry.position
    except CorruptIndexError:
        start = 0
    found = _last_valid(active, start) or (_last_valid(active, 0) if start else None)
    next_offset, position = found or (active.base_offset, 0)
    if position == active.size:
        return offset, position
    logger.warning(
        "%s is read up to byte %d: the checksum of what is behind does not hold, as after a crash",
        active.log_path,
        position,
    )
    return next_offset, position


def _end_behind_damage(view: LogView) -> tuple[int, int]:
    """The same of a log that was closed: what is behind damage belongs to it."""
    active, next_offset = view.segments.active, view.log_end_offset
    tail = view.strange_tail()
    if tail is None:
        return next_offset, active.size
    position, active.size = tail
    end = position
    while position < active.size:
        position = next_batch(active, position, active.size, last_offset=next_offset - 1)
        for part in walk_file(active.read_into, position, active.size, check_crc=False):
            position = part.position + part.walk.next_position
            if len(part.walk.headers):
                next_offset = max(next_offset, int(part.walk.headers[-1]["last_offset"]) + 1)
                end = position
    return next_offset, end


def _last_valid(active: LogSegment, start: int) -> tuple[int, int] | None:
    """(next offset, end) of the last batch behind `start` whose checksum holds."""
    found = None
    for part in walk_file(active.read_into, start, active.size):
        good = np.flatnonzero(part.walk.headers["valid"])
        if len(good):
            last = part.walk.headers[int(good[-1])]
            found = int(last["last_offset"]) + 1, part.position + int(last["position"]) + int(last["size"])
    return found


def _aborted(view: LogView, recovery_point: int | None) -> tuple[AbortedRange, ...]:
    """Aborted transactions by the indexes of all segments, and by the markers behind a snapshot.

    The newest snapshot of a log that was closed; else one below the recovery point, above which a power cut
    may have lost entries of an index that were not yet on the device.
    """
    found: set[AbortedRange] = set()
    try:
        for segment in view.segments:
            if segment.txn_index.exists:
                segment.txn_index.sanity_check()
                found.update(each[:3] for each in segment.txn_index.all_aborted())
        recent = view.aborted(up_to=recovery_point)
    except CorruptIndexError as error:
        logger.warning("aborted transactions are taken from their markers: %s", error)
        found.clear()
        recent = view.aborted(up_to=0)
    found.update((txn.producer_id, txn.first_offset, txn.last_offset) for txn in recent)
    return tuple(sorted(found, key=lambda each: (each[1], each[0])))
