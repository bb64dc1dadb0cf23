"""Random predicates on what narrows a scan, in the forms of several libraries, and logs to ask them of."""

from __future__ import annotations

import datetime
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import stratalog
from stratalog.log.new_records import NewRecord

T0 = 1_700_000_000_000
RECORDS_COUNT = 400
PARTITIONS = ("orders-0", "orders-1", "orders-2", "bills-0", "web.clicks-3", "web.clicks-4")
TOPICS = ("orders", "bills", "web.clicks", "nothing")
OPERATORS = ("==", "!=", "<", "<=", ">", ">=")
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def make_logs(root: Path, seed: int = 5) -> Path:
    """Logs of small segments, with times that go back and forth, and some that are the same."""
    chance = random.Random(seed)
    config = {"internal.segment.bytes": 4000, "index.interval.bytes": 300}
    for name in PARTITIONS:
        with stratalog.open_log(root / name, create=True, config=config) as log:
            at = T0
            for start in range(0, RECORDS_COUNT, 8):
                at += chance.choice([-40_000, 0, 1000, 15_000])
                times = [at + chance.choice([-2000, 0, 0, 700]) for _ in range(8)]
                numbers = range(start, start + 8)
                log.append_many(
                    [
                        NewRecord(b"value %d" % number, b"key %d" % (number % 11), (), time)
                        for number, time in zip(numbers, times, strict=True)
                    ]
                )
    return root


@dataclass(frozen=True)
class Query:
    """A predicate: an operator and its parts, a comparison, or one on a column that narrows nothing."""

    what: str  # and, or, not, compare, in, between, other
    parts: tuple[Any, ...]

    def to_polars(self) -> Any:  # a pl.Expr
        match self.what, self.parts:
            case "and", (left, right):
                return left.to_polars() & right.to_polars()
            case "or", (left, right):
                return left.to_polars() | right.to_polars()
            case "not", (part,):
                return ~part.to_polars()
            case "compare", (column, how, value):
                return _compare(pl.col(column), how, _polars_value(column, value))
            case "in", (column, values):
                return pl.col(column).is_in([_polars_value(column, value) for value in values])
            case "between", (column, low, high):
                bounds = pl.lit(_polars_value(column, low)), pl.lit(_polars_value(column, high))
                return pl.col(column).is_between(*bounds)
        (digit,) = self.parts
        return pl.col("value").bin.ends_with(digit)

    def to_arrow(self) -> pc.Expression:
        match self.what, self.parts:
            case "and", (left, right):
                return left.to_arrow() & right.to_arrow()
            case "or", (left, right):
                return left.to_arrow() | right.to_arrow()
            case "not", (part,):
                return ~part.to_arrow()
            case "compare", (column, how, value):
                return _compare(pc.field(column), how, _arrow_value(column, value))
            case "in", (column, values):
                found = [_arrow_value(column, value).as_py() for value in values]
                return pc.field(column).isin(pa.array(found, ARROW_TYPES[column]))
            case "between", (column, low, high):
                return (pc.field(column) >= _arrow_value(column, low)) & (
                    pc.field(column) <= _arrow_value(column, high)
                )
        (digit,) = self.parts
        return pc.ends_with(pc.field("value"), digit)

    def to_sql(self) -> str:
        match self.what, self.parts:
            case "and", (left, right):
                return f"({left.to_sql()} AND {right.to_sql()})"
            case "or", (left, right):
                return f"({left.to_sql()} OR {right.to_sql()})"
            case "not", (part,):
                return f"(NOT {part.to_sql()})"
            case "compare", (column, how, value):
                return f'("{column}" {"=" if how == "==" else how} {_sql_value(column, value)})'
            case "in", (column, values):
                return f'("{column}" IN ({", ".join(_sql_value(column, value) for value in values)}))'
            case "between", (column, low, high):
                return f'("{column}" BETWEEN {_sql_value(column, low)} AND {_sql_value(column, high)})'
        (digit,) = self.parts
        return f"(ends_with(decode(value), '{digit.decode()}'))"


ARROW_TYPES = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def random_query(chance: random.Random, depth: int = 3) -> Query:
    """A predicate of at most this depth."""
    leaves, branches = ["compare"] * 4 + ["in", "between", "other"], ["and", "or", "not"] * 3
    kind = chance.choice(leaves + (branches if depth else []))
    if kind in ("and", "or"):
        return Query(kind, (random_query(chance, depth - 1), random_query(chance, depth - 1)))
    if kind == "not":
        return Query(kind, (random_query(chance, depth - 1),))
    if kind == "other":
        return Query(kind, (b"%d" % chance.randrange(10),))
    column = chance.choice(list(ARROW_TYPES))
    if kind == "in":
        return Query(kind, (column, tuple(_value(chance, column) for _ in range(chance.randrange(1, 4)))))
    if kind == "between":
        return Query(kind, (column, *sorted(_value(chance, column) for _ in range(2))))
    return Query(kind, (column, chance.choice(OPERATORS), _value(chance, column)))


def _value(chance: random.Random, column: str) -> Any:
    if column == "topic":
        return chance.choice(TOPICS)
    if column == "partition":
        return chance.randrange(6)
    if column == "offset":
        return chance.randrange(-2, RECORDS_COUNT + 10)
    # Microseconds, some of them between two milliseconds.
    return (T0 + chance.randrange(-300_000, 200_000)) * 1000 + chance.choice([0, 0, 1, 999])


def _compare(column: Any, how: str, value: Any) -> Any:
    match how:
        case "==":
            return column == value
        case "!=":
            return column != value
        case "<":
            return column < value
        case "<=":
            return column <= value
        case ">":
            return column > value
    return column >= value


def _polars_value(column: str, value: Any) -> Any:
    return EPOCH + datetime.timedelta(microseconds=value) if column == "timestamp" else value


def _arrow_value(column: str, value: Any) -> Any:
    return pa.scalar(_polars_value(column, value), ARROW_TYPES[column])


def _sql_value(column: str, value: Any) -> str:
    if column == "timestamp":
        return f"make_timestamptz({value})"
    return f"'{value}'" if column == "topic" else str(value)
