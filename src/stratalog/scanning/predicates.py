"""Predicates on topic, partition, offset and timestamp, and the records that they can match.

Each library has its own form of a predicate; `arrow_predicates.py` and `polars_predicates.py` translate the
parts that they understand. Everything else is UNKNOWN, and excludes nothing. None of the four columns is ever
null.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from stratalog.files.names import TopicPartition
from stratalog.jobs.reading.narrowing import EVERYTHING, Narrowing, Wanted

EQUAL, UNEQUAL, BELOW, AT_MOST, ABOVE, AT_LEAST = "==", "!=", "<", "<=", ">", ">="
_OPPOSITE = {EQUAL: UNEQUAL, BELOW: AT_LEAST, AT_MOST: ABOVE}
OPPOSITE = _OPPOSITE | {other: one for one, other in _OPPOSITE.items()}
MIRRORED = {EQUAL: EQUAL, UNEQUAL: UNEQUAL, BELOW: ABOVE, ABOVE: BELOW, AT_MOST: AT_LEAST, AT_LEAST: AT_MOST}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    EQUAL: operator.eq,
    UNEQUAL: operator.ne,
    BELOW: operator.lt,
    AT_MOST: operator.le,
    ABOVE: operator.gt,
    AT_LEAST: operator.ge,
}
# The type that a value must have to be compared with each of these columns; timestamps are microseconds since
# 1970.
KINDS: dict[str, type] = {"topic": str, "partition": int, "offset": int, "timestamp": int}


@dataclass(frozen=True, slots=True)
class Compared:
    """A column compared with a value."""

    column: str
    how: str
    value: Any  # a str or an int, depending on the column

    def __invert__(self) -> Predicate:
        return Compared(self.column, OPPOSITE[self.how], self.value)


@dataclass(frozen=True, slots=True)
class All:
    """All of these must hold."""

    parts: tuple[Predicate, ...]

    def __invert__(self) -> Predicate:
        return AnyOf(tuple(~part for part in self.parts))


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of these must hold; an empty list never holds."""

    parts: tuple[Predicate, ...]

    def __invert__(self) -> Predicate:
        return All(tuple(~part for part in self.parts))


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that is not understood: it may hold or not."""

    def __invert__(self) -> Predicate:
        return self


Predicate = Compared | All | AnyOf | Unknown
UNKNOWN = Unknown()
ALWAYS, NEVER = All(()), AnyOf(())


def compared(column: object, how: str, value: object) -> Predicate:
    """The comparison, if column and value can narrow a scan; otherwise UNKNOWN."""
    if not isinstance(column, str) or column not in KINDS:
        return UNKNOWN
    if not isinstance(value, KINDS[column]) or isinstance(value, bool):
        return UNKNOWN
    return Compared(column, how, value)


def one_of(column: object, values: list[Any]) -> Predicate:
    """Whether the column has one of these values; a null among them matches no row."""
    if column not in KINDS:
        return UNKNOWN  # another column may be null, and a library may treat two nulls as equal
    return AnyOf(tuple(compared(column, EQUAL, value) for value in values if value is not None))


def narrowing_by(predicate: Predicate) -> Narrowing:
    """The part of each partition that the predicate can match."""
    return lambda partition: _wanted(predicate, partition)


def _wanted(predicate: Predicate, partition: TopicPartition) -> Wanted | None:
    match predicate:
        case Compared(column="topic", how=how, value=value):
            return EVERYTHING if _COMPARE[how](partition.topic, value) else None
        case Compared(column="partition", how=how, value=value):
            return EVERYTHING if _COMPARE[how](partition.partition, value) else None
        case Compared(column="offset", how=how, value=value):
            return _offsets(how, value)
        case Compared(how=how, value=value):
            return _times(how, value)
        case All(parts=parts):
            wanted: Wanted | None = EVERYTHING
            for part in parts:
                other = _wanted(part, partition)
                wanted = None if wanted is None or other is None else wanted.both(other)
            return wanted
        case AnyOf(parts=parts):
            found = [each for part in parts if (each := _wanted(part, partition)) is not None]
            return reduce(Wanted.either, found) if found else None
        case _:
            return EVERYTHING


def _offsets(how: str, value: int) -> Wanted | None:
    if how == UNEQUAL:
        return EVERYTHING
    first = value + (how == ABOVE) if how in (EQUAL, ABOVE, AT_LEAST) else EVERYTHING.first_offset
    last = value - (how == BELOW) if how in (EQUAL, BELOW, AT_MOST) else EVERYTHING.last_offset
    return EVERYTHING.both(Wanted(first_offset=first, last_offset=last))


def _times(how: str, micros: int) -> Wanted:
    """The records that can match a comparison with this time; their timestamps are in milliseconds."""
    if how == ABOVE:
        return Wanted(since_ms=micros // 1000 + 1)
    return Wanted(since_ms=-(-micros // 1000)) if how in (AT_LEAST, EQUAL) else EVERYTHING
