"""The range to read of a partition: its start, its valid end or last stable offset, its aborted transactions.

`latest` is the end of the valid bytes: just past the last whole batch with a matching checksum in the newest
segment. Bytes that a crash left after it are ignored, unless the checkpoints say that complete batches were
there. A read_committed reader ends at the first record of a transaction that is still open.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from stratalog.errors import CorruptIndexError, CorruptRecordError, OffsetOutOfRangeError, UsageError
from stratalog.files.names import TopicPartition
from stratalog.jobs.reading.omissions import Omission, OmissionKind, OnOmission, ignore_omission
from stratalog.jobs.reading.options import EARLIEST, LATEST, OnCorruption, ReadBound, ReadOptions, listed
from stratalog.jobs.reading.split import AbortedRange
from stratalog.log.api.looking import Decided
from stratalog.log.api.view import LogView
from stratalog.log.log_end import LogEnd
from stratalog.segment.proven_search import Hidden, TimeSearch

logger = logging.getLogger(__name__)

_REMEDY_TIME = "to skip the damage and read the rest, set onCorruption=skip"
_REMEDY_COMMITTED = "to read the rest, set isolation=read_uncommitted and onCorruption=skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """What a read may see of a partition: [start_offset, end_offset), without aborted transactions."""

    start_offset: int
    end_offset: int  # the last stable offset for a read_committed reader
    valid: LogEnd
    aborted: tuple[AbortedRange, ...] = ()


def ends_of(
    view: LogView,
    *,
    read_committed: bool,
    passes_open: bool = False,
    on_corruption: OnCorruption = OnCorruption.SKIP,
) -> Ends:
    """What a read may see of a log at this moment.

    Bytes after the last batch are damage if the log was closed cleanly, or if its checkpoints say that a
    batch was there: a CorruptRecordError, unless damage is skipped. With `passes_open`, a read of committed
    records does not stop at an open transaction. Like a coordinator that loads its topic, it reads to the end
    of the log and leaves out only that transaction's records.
    """
    start = view.log_start_offset
    if view.left.was_closed and on_corruption is OnCorruption.FAIL:
        _check_tail(view)
    valid = view.valid_end()
    if valid.missing_end is not None and on_corruption is OnCorruption.FAIL:
        raise _damaged_tail(view, valid, _known(valid.missing_end))
    end = valid.offset
    aborted: tuple[AbortedRange, ...] = ()
    if read_committed:
        with _damage_in_words(view, "which transactions were aborted", _REMEDY_COMMITTED):
            decided = view.decided_at(valid)
            aborted = _aborted(view, valid, decided)
            if passes_open:
                aborted += tuple((*each, valid.offset) for each in decided.undecided)
            else:
                end = min(decided.stable.offset, valid.offset)
    return Ends(
        start_offset=min(start, end),
        end_offset=end,
        valid=valid,
        aborted=aborted,
    )


def range_of(
    view: LogView, ends: Ends, options: ReadOptions, on_omission: OnOmission = ignore_omission
) -> tuple[int, int]:
    """The offsets [start, end) of one partition that the options select.

    Offsets that the partition does not have, or no longer has, are an OffsetOutOfRangeError; if
    failOnDataLoss is false, they are only reported. Damage at the end of the log is also reported, if the
    range reaches that end.
    """
    partition = view.topic_partition
    starting, ending = (_search(view, ends, each, options) for each in (options.starting, options.ending))
    start = _offset(view, ends, options.starting, starting)
    if start is None:
        if not options.start_late_if_no_match:
            raise UsageError(
                f"{options.starting.option}: {partition} has no record at or after that time. With "
                "startingOffsetsByTimestampStrategy=latest, such a partition is not read."
            )
        start = ends.end_offset
    end = _offset(view, ends, options.ending, ending)
    end = ends.end_offset if end is None else end
    found = (
        _within(start, view, ends, options, options.starting.option),
        _within(end, view, ends, options, options.ending.option),
    )
    for omission in _omitted(view, ends, (start, end), options):
        on_omission(omission)
    if ending is not None and ending.hidden is not None:
        unsure_end = ends.end_offset if ending.record is None else min(ending.record.offset, ends.end_offset)
        if max(start, end) < unsure_end:
            on_omission(_unsure(view, ending.hidden, max(start, end), unsure_end, options.ending.option))
    return found


def check_complete(bound: ReadBound, partitions: list[TopicPartition]) -> None:
    """UsageError unless offsets or times by partition name exactly the partitions that are read."""
    named = bound.offsets if bound.offsets is not None else bound.timestamps
    if named is None:
        return
    missing = sorted(set(partitions) - set(named))
    if missing:
        raise UsageError(
            f"{bound.option} does not name {listed(missing)}: name every partition that is read, with "
            f"{EARLIEST} for the earliest and {LATEST} for the latest offset."
        )
    strange = sorted(set(named) - set(partitions))
    if strange:
        raise UsageError(f"{bound.option} names {listed(strange)}, but this read does not include them.")


def _timestamp(view: LogView, bound: ReadBound) -> int | None:
    return bound.timestamp if bound.timestamps is None else bound.timestamps[view.topic_partition]


def _search(view: LogView, ends: Ends, bound: ReadBound, options: ReadOptions) -> TimeSearch | None:
    """The first record at or after the time of a bound; None if the bound is not a time.

    If damage may hide an earlier such record, this is an error, unless damage is skipped. If damage is
    skipped, a read that should start at that time starts at the damage, so that it loses no record. A read
    that should end at that time ends at the damage, so that it returns no later record.
    """
    timestamp = _timestamp(view, bound)
    if timestamp is None or timestamp < 0:
        return None
    found = view.search_time(timestamp)
    hidden = found.hidden
    is_refused = options.on_corruption is OnCorruption.FAIL
    if is_refused and hidden is not None and hidden.first_offset < ends.end_offset:
        with _damage_in_words(view, "which record is the first at or after that time", _REMEDY_TIME):
            raise hidden.error
    return found


def _offset(view: LogView, ends: Ends, bound: ReadBound, found: TimeSearch | None) -> int | None:
    """The offset of a bound; None if no record is at or after its time."""
    timestamp = _timestamp(view, bound)
    if found is not None:
        first = found.first_offset
        # As in a broker: a read_committed reader learns nothing about offsets past the last stable offset.
        return None if first is None or first >= ends.end_offset else first
    if timestamp is not None:
        mark = timestamp
    else:
        mark = bound.mark if bound.offsets is None else bound.offsets[view.topic_partition]
    return {EARLIEST: ends.start_offset, LATEST: ends.end_offset}.get(mark, mark)


@contextmanager
def _damage_in_words(view: LogView, what: str, remedy: str) -> Iterator[None]:
    """Adds the partition, and what to do, to an error about damage that stops the planning of a read."""
    try:
        yield
    except CorruptRecordError as error:
        raise type(error)(
            f"{error.reason} This damage was met while reading the headers of {view.topic_partition} to find "
            f"out {what}. Look with `stratalog dump`; {remedy}.",
            position=error.position,
            path=error.path,
        ) from error


def _within(offset: int, view: LogView, ends: Ends, options: ReadOptions, option: str) -> int:
    start, end = ends.start_offset, ends.end_offset
    if start <= offset <= end:
        return offset
    if options.fail_on_data_loss:
        raise OffsetOutOfRangeError(
            f"{option}: {view.topic_partition} in {view.directory} has no offset {offset}; its offsets begin "
            f"at {start} and end before {end}. Ask for {start} to {end}, or set failOnDataLoss=false to read "
            "what exists.",
            offset=offset,
            valid=(start, end),
        )
    logger.warning(
        "%s: %s has no offset %d: its offsets begin at %d and end before %d",
        option,
        view.topic_partition,
        offset,
        start,
        end,
    )
    return min(max(offset, start), end)


def _omitted(view: LogView, ends: Ends, asked: tuple[int, int], options: ReadOptions) -> Iterator[Omission]:
    """The requested offsets that do not exist, and damage that hides the end of the log."""
    start, end = asked
    first, last = ends.start_offset, ends.end_offset
    spans: list[tuple[str, int, int | None]] = []
    if start < first:
        spans.append((options.starting.option, start, max(start, min(end, first))))
    if end > last:
        spans.append((options.ending.option, max(start, last), end))
    elif start > last:
        spans.append((options.starting.option, start, None))
    for option, lost_start, lost_end in spans:
        yield Omission(
            topic=view.topic_partition.topic,
            partition=view.topic_partition.partition,
            kind=OmissionKind.LOSS,
            first_offset=lost_start,
            end_offset=lost_end,
            why=f"{option} asks for them, and the log's offsets begin at {first} and end before {last}.",
        )
    valid = ends.valid
    if end >= last and valid.hides_something and (valid.was_closed or valid.missing_end is not None):
        yield _tail_of(view, valid)


def _unsure(view: LogView, hidden: Hidden, start: int, end: int, option: str) -> Omission:
    """The offsets that a read leaves out: damage may hide the first record at or after its end time."""
    return Omission(
        topic=view.topic_partition.topic,
        partition=view.topic_partition.partition,
        kind=OmissionKind.DAMAGE,
        first_offset=start,
        end_offset=end,
        why=f"damage may hide the first record at or after {option}: {hidden.error}",
    )


def _tail_of(view: LogView, valid: LogEnd) -> Omission:
    """The damaged end of a log."""
    known = "the log was closed cleanly" if valid.missing_end is None else _known(valid.missing_end)
    return Omission(
        topic=view.topic_partition.topic,
        partition=view.topic_partition.partition,
        kind=OmissionKind.DAMAGE,
        first_offset=valid.offset,
        end_offset=valid.missing_end,
        size=valid.hidden_size,
        why=f"{known}, but the bytes at its end are not a batch: {valid.reason}",
        path=valid.path,
        position=valid.position,
    )


def problem_at(view: LogView, valid: LogEnd) -> str | None:
    """A sentence about the records that the checkpoints know but damage hides; None if there are none."""
    return None if valid.missing_end is None else str(_tail_of(view, valid))


def _known(missing_end: int) -> str:
    return f"the checkpoints say that the log reached offset {missing_end}"


def _check_tail(view: LogView) -> None:
    end = view.end()
    if end.hides_something:
        raise _damaged_tail(view, end, "the log was closed cleanly")


def _damaged_tail(view: LogView, end: LogEnd, known: str) -> CorruptRecordError:
    return CorruptRecordError(
        f"{known}, but {end.hidden_size} bytes after its last whole batch are not a "
        f"batch: the log is damaged, or was not copied completely. The records of {view.topic_partition} "
        f"from offset {end.offset} on are lost. Look with `stratalog dump`; to read the records before that "
        "offset, set onCorruption=skip.",
        position=end.position,
        path=end.path,
    )


def _aborted(view: LogView, valid: LogEnd, decided: Decided) -> tuple[AbortedRange, ...]:
    """Aborted transactions, from the indexes of all segments and from the markers after a snapshot.

    That snapshot is the newest one if the log was closed cleanly. Otherwise it is one below the recovery
    point: above that point a power cut may have lost index entries.
    """
    found: set[AbortedRange] = set()
    try:
        for segment in view.segments:
            if segment.txn_index.exists:
                segment.txn_index.sanity_check()
                found.update(each[:3] for each in segment.txn_index.all_aborted())
        left = view.left
        recent = decided.aborted if left.was_closed else view.aborted(valid, up_to=left.recovery_point)
    except CorruptIndexError as error:
        logger.warning("aborted transactions are read from their markers instead of the index: %s", error)
        found.clear()
        recent = view.aborted(valid, up_to=0)
    found.update((txn.producer_id, txn.first_offset, txn.last_offset) for txn in recent)
    return tuple(sorted(found, key=lambda each: (each[1], each[0])))
