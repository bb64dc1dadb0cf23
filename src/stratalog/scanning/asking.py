"""The arguments of a scan, checked at the call: an error says what does not exist, and lists what does."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from stratalog.errors import InvalidNameError, UsageError, WrongTypeError
from stratalog.files.entries import Path
from stratalog.files.names import TopicPartition, parse_partition_directory
from stratalog.jobs.reading.arguments import Time, option_texts, whole_number
from stratalog.jobs.reading.options import EARLIEST, LATEST, ReadBound, ReadOptions
from stratalog.limits import INT64_MAX

OnDamage = Literal["fail", "skip"]
PartitionName = TopicPartition | tuple[str, int] | str
OffsetSpan = range | tuple[int | None, int | None]
Offsets = Mapping[PartitionName, OffsetSpan]
"""The offsets to read in each partition: a range, or (start, end), where None means the log's start or
end."""

_CAPITAL = re.compile("[A-Z]")


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

    `decoding` are options of the source, such as valueEncoding; None means that an option was not given.
    """
    for name, flag in (("fail_on_data_loss", fail_on_data_loss), ("include_control", include_control)):
        check_flag(name, flag)
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
            **{name: _decoding(name, given) for name, given in decoding.items() if given is not None},
        )
    )
    if offsets is None:
        return options
    if since is not None or until is not None:
        raise UsageError("offsets and times contradict each other: give offsets, or since and until.")
    ranges = _ranges(offsets)
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


def check_flag(name: str, given: object) -> None:
    """WrongTypeError unless this is True or False: the text "no" would count as True."""
    if not isinstance(given, bool):
        raise WrongTypeError(f"{name} is {given!r}: it must be True or False.")


def _decoding(option: str, given: object) -> str:
    """The value of a decoding option, as text."""
    name = _CAPITAL.sub(lambda found: f"_{found[0].lower()}", option).removesuffix("_encoding")
    if not isinstance(given, str | os.PathLike) or not isinstance(text := os.fspath(given), str):
        raise WrongTypeError(
            f"{name} is {given!r}, of type {type(given).__name__}: it must be text or a path."
        )
    if "\0" in text:
        raise UsageError(f"{name} is {text!r}, which has a null character.")
    return text


def _ranges(offsets: Offsets) -> dict[TopicPartition, tuple[int, int]]:
    if not isinstance(offsets, Mapping):
        raise WrongTypeError(
            f"offsets is {offsets!r}: it must be a dict, such as {{'orders-0': range(23, 42)}}."
        )
    if not offsets:
        raise UsageError("offsets names no partition: name some, or leave it out to read them all.")
    ranges: dict[TopicPartition, tuple[int, int]] = {}
    for name, given in offsets.items():
        partition = _partition(name)
        if partition in ranges:
            raise UsageError(f"offsets names {partition} twice: give it one range.")
        ranges[partition] = _range(name, given)
    return ranges


def _partition(name: PartitionName) -> TopicPartition:
    if isinstance(name, str):
        partition = None
        with suppress(InvalidNameError):
            partition = parse_partition_directory(name).topic_partition
        if partition is not None and str(partition) == name:  # not orders-00, nor orders-0.<id>-delete
            return partition
    elif isinstance(name, tuple) and len(name) == 2 and isinstance(name[0], str):
        with suppress(UsageError):
            return TopicPartition(name[0], whole_number("a partition", name[1]))
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
    start, end = (_offset(name, *each) for each in ((start, EARLIEST), (end, LATEST)))
    if start > end >= 0:
        raise UsageError(f"offsets says {given!r} for {name}: the read would end before it begins.")
    return start, end


def _offset(name: PartitionName, given: int, mark: int) -> int:
    offset = None
    with suppress(UsageError):
        offset = whole_number("an offset", given, least=mark)
    if offset is None or mark < offset < 0 or offset > INT64_MAX:
        raise UsageError(f"offsets says {given!r} for {name}: an offset is a number from 0 on.")
    return offset
