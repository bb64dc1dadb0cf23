"""The arguments of a scan, checked at the call: an error names what does not exist, and what does."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from stratalog.errors import InvalidNameError, UsageError
from stratalog.files.entries import Path
from stratalog.files.names import TopicPartition, parse_partition_directory
from stratalog.jobs.reading.arguments import Time, option_texts
from stratalog.jobs.reading.options import EARLIEST, LATEST, ReadBound, ReadOptions
from stratalog.limits import INT64_MAX

OnDamage = Literal["fail", "skip"]
PartitionName = TopicPartition | tuple[str, int] | str
OffsetSpan = range | tuple[int | None, int | None]
Offsets = Mapping[PartitionName, OffsetSpan]
"""Partitions, and the offsets to read of each: a range, or (start, end) where None is the log's own."""


def read_options(
    paths: Path | Sequence[Path],
    *,
    topics: str | Iterable[str] | None = None,
    since: Time | None = None,
    until: Time | None = None,
    offsets: Offsets | None = None,
    isolation: str = "read_uncommitted",
    on_corruption: str = "fail",
    fail_on_data_loss: bool = True,
    include_control: bool = False,
    **decoding: Path | None,
) -> ReadOptions:
    """The arguments of a scan as options of a read; UsageError says what is wrong with one.

    `decoding` are options of the source, such as valueEncoding; None is one that was not given.
    """
    options = ReadOptions.parse(
        option_texts(
            paths,
            topics=topics,
            since=since,
            until=until,
            isolation=isolation,
            onCorruption=on_corruption,
            failOnDataLoss=fail_on_data_loss,
            includeControl=include_control,
            **{name: os.fspath(given) for name, given in decoding.items() if given is not None},
        )
    )
    if offsets is None:
        return options
    if since is not None or until is not None:
        raise UsageError("offsets and times contradict each other: give offsets, or since and until.")
    ranges = {_partition(name): _range(name, each) for name, each in offsets.items()}
    strange = [each for each in ranges if options.topics is not None and each.topic not in options.topics]
    if strange:
        raise UsageError(
            f"offsets names {strange[0]}, but topics does not name {strange[0].topic}: leave one of them out."
        )
    return replace(
        options,
        topics=None,
        assigned=tuple(ranges),
        starting=ReadBound(offsets={each: start for each, (start, _) in ranges.items()}, option="offsets"),
        ending=ReadBound(offsets={each: end for each, (_, end) in ranges.items()}, option="offsets"),
    )


def _partition(name: PartitionName) -> TopicPartition:
    if isinstance(name, str):
        try:
            return parse_partition_directory(name).topic_partition
        except InvalidNameError:
            pass
    elif len(name) == 2 and isinstance(name[0], str) and isinstance(name[1], int):
        return TopicPartition(*name)
    raise UsageError(f"offsets names {name!r}: name a partition as ('orders', 0) or 'orders-0'.")


def _range(name: PartitionName, given: OffsetSpan) -> tuple[int, int]:
    """(start, end), with Kafka's special values for what is not given."""
    if isinstance(given, range) and given.step == 1:
        start, end = given.start, given.stop
    elif isinstance(given, tuple) and len(given) == 2:
        start = EARLIEST if given[0] is None else given[0]
        end = LATEST if given[1] is None else given[1]
    else:
        raise UsageError(f"offsets says {given!r} for {name}: give range(23, 42), or (23, None).")
    for offset, mark in ((start, EARLIEST), (end, LATEST)):
        if not isinstance(offset, int) or (offset != mark and not 0 <= offset <= INT64_MAX):
            raise UsageError(f"offsets says {offset!r} for {name}: an offset is a number from 0 on.")
    if start > end >= 0:
        raise UsageError(f"offsets says {given!r} for {name}: the read would end before it begins.")
    return start, end
