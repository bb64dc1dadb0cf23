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

from stratalog.errors import CorruptIndexError, CorruptRecordError, OffsetOutOfRangeError, UsageError
from stratalog.files.names import TopicPartition
from stratalog.jobs.reading.options import EARLIEST, LATEST, OnCorruption, ReadBound, ReadOptions, listed
from stratalog.jobs.reading.split import AbortedRange
from stratalog.log.api.view import LogView
from stratalog.log.log_end import LogEnd

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """What a read may see of a partition: [start_offset, end_offset), less what was aborted."""

    start_offset: int
    end_offset: int  # the last stable offset for a reader of committed records
    valid: LogEnd
    aborted: tuple[AbortedRange, ...] = ()


def ends_of(
    view: LogView,
    *,
    read_committed: bool,
    passes_open: bool = False,
    on_corruption: OnCorruption = OnCorruption.SKIP,
) -> Ends:
    """The marks of a log as it is now.

    A log that was closed cleanly has nothing past its last batch: CorruptRecordError, unless that is to be
    skipped. With `passes_open` committed records are read up to the end, past a transaction that is open and
    without its records: as a coordinator loads its topic.
    """
    start = view.log_start_offset
    if view.left.was_closed and on_corruption is OnCorruption.FAIL:
        _check_tail(view)
    valid = view.valid_end()
    end = valid.offset
    aborted: tuple[AbortedRange, ...] = ()
    if read_committed:
        with _damage_in_words(view, "what became of transactions", "isolation=read_uncommitted"):
            aborted = _aborted(view)
            if passes_open:
                aborted += tuple((*each, valid.offset) for each in view.undecided())
            else:
                end = min(view.last_stable_offset, valid.offset)
    return Ends(
        start_offset=min(start, end),
        end_offset=end,
        valid=valid,
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


def check_complete(bound: ReadBound, partitions: list[TopicPartition]) -> None:
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


def _offset(view: LogView, ends: Ends, bound: ReadBound, *, if_no_match: int | None) -> int | None:
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
    end = view.end()
    if not end.hides_something:
        return
    raise CorruptRecordError(
        f"the log was closed cleanly, and goes on for {end.hidden_size} bytes that are no whole batch: it is "
        f"damaged or was not copied whole. What {view.topic_partition} has from offset {end.offset} "
        "on is lost. Look with `stratalog dump`; to read what is before it, set onCorruption=skip.",
        position=end.position,
        path=end.path,
    )


def _aborted(view: LogView) -> tuple[AbortedRange, ...]:
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
        recent = view.aborted(up_to=None if view.left.was_closed else view.left.recovery_point)
    except CorruptIndexError as error:
        logger.warning("aborted transactions are taken from their markers: %s", error)
        found.clear()
        recent = view.aborted(up_to=0)
    found.update((txn.producer_id, txn.first_offset, txn.last_offset) for txn in recent)
    return tuple(sorted(found, key=lambda each: (each[1], each[0])))
