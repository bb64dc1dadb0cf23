"""Translates a Polars predicate, from the JSON of its tree, as far as it is understood."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stratalog.scanning.predicates import (
    ABOVE,
    ALWAYS,
    AT_LEAST,
    AT_MOST,
    BELOW,
    EQUAL,
    MIRRORED,
    NEVER,
    UNEQUAL,
    UNKNOWN,
    All,
    AnyOf,
    Predicate,
    compared,
    one_of,
)

if TYPE_CHECKING:
    import polars as pl

_COMPARISONS = {
    "Eq": EQUAL,
    "EqValidity": EQUAL,
    "NotEq": UNEQUAL,
    "NotEqValidity": UNEQUAL,
    "Lt": BELOW,
    "LtEq": AT_MOST,
    "Gt": ABOVE,
    "GtEq": AT_LEAST,
}
_PER_MILLISECOND = {"Nanoseconds": 1_000_000, "Microseconds": 1000, "Milliseconds": 1}
_BOUNDS = {
    "Both": (AT_LEAST, AT_MOST),
    "Left": (AT_LEAST, BELOW),
    "Right": (ABOVE, AT_MOST),
    "None": (ABOVE, BELOW),
}
_DYNAMIC = "dynamic_pred"
_INTEGERS = {f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64, 128)}


def from_polars(predicate: pl.Expr | None) -> Predicate:
    """The predicate of an expression; ALWAYS if there is no expression."""
    if predicate is None:
        return ALWAYS
    try:
        return _parse(json.loads(predicate.meta.serialize(format="json")))
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, pa.ArrowException):
        return UNKNOWN


def without_dynamic(predicate: pl.Expr | None) -> pl.Expr | None:
    """The part of a predicate that can be evaluated.

    If a query has a limit, Polars adds a predicate that is only a hint, and cannot be evaluated outside of
    Polars.
    """
    if predicate is None or _DYNAMIC not in str(predicate):
        return predicate
    import io

    import polars as pl

    tree = _stripped(json.loads(predicate.meta.serialize(format="json")))
    return None if tree is None else pl.Expr.deserialize(io.StringIO(json.dumps(tree)), format="json")


def _stripped(tree: Any) -> Any:  # Any: JSON
    match tree:
        case {"Display": {"fmt_str": str(text)}} if text.startswith(_DYNAMIC):
            return None
        case {"BinaryExpr": {"op": "And", "left": left, "right": right} as both}:
            parts = [part for part in (_stripped(left), _stripped(right)) if part is not None]
            if len(parts) == 2:
                return {"BinaryExpr": {**both, "left": parts[0], "right": parts[1]}}
            return parts[0] if parts else None
    return tree


def _parse(tree: Any) -> Predicate:  # Any: JSON
    match tree:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            return All((_parse(left), _parse(right)))
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            return AnyOf((_parse(left), _parse(right)))
        case {"BinaryExpr": {"left": {"Column": column}, "op": str(how), "right": {"Literal": value}}}:
            return compared(column, _COMPARISONS[how], _value(value)) if how in _COMPARISONS else UNKNOWN
        case {"BinaryExpr": {"left": {"Literal": value}, "op": str(how), "right": {"Column": column}}}:
            mirrored = MIRRORED.get(_COMPARISONS.get(how, ""))
            return UNKNOWN if mirrored is None else compared(column, mirrored, _value(value))
        case {"Literal": {"Scalar": {"Boolean": bool(value)}}}:
            return ALWAYS if value else NEVER
        case {"Function": {"input": inputs, "function": {"Boolean": function}}}:
            return _function(function, inputs)
    return UNKNOWN


def _function(function: Any, inputs: list[Any]) -> Predicate:
    match function, inputs:
        case ("Not", [part]):
            return ~_parse(part)
        case ({"IsBetween": {"closed": closed}}, [{"Column": column}, {"Literal": low}, {"Literal": high}]):
            above, below = _BOUNDS[closed]
            return All((compared(column, above, _value(low)), compared(column, below, _value(high))))
        case ({"IsIn": _}, [{"Column": column}, {"Literal": {"Scalar": {"List": values}}}]):
            return one_of(column, _listed(values))
    return UNKNOWN


def _value(literal: Any) -> object:
    """The value of a literal: text, a whole number, or a time in UTC as microseconds."""
    match literal:
        case {"Scalar": {"Datetime": [int(count), str(unit), zone]}} if zone is not None:
            # A time between two microseconds is not compared (UNKNOWN): no record has such a time.
            micros, rest = divmod(count * 1000, _PER_MILLISECOND[unit])
            return UNKNOWN if rest else micros
        case {"Dyn": {"Int": int(number)}}:
            return number
        case {"Scalar": {"String": str(text)}}:
            return text
        case {"Scalar": dict(kinds)}:
            return next((value for kind, value in kinds.items() if kind in _INTEGERS), UNKNOWN)
    return UNKNOWN


def _listed(serialized: list[int]) -> list[Any]:
    """The values of a list, which Polars writes as an Arrow stream."""
    (column,) = pa.ipc.open_stream(bytes(serialized)).read_all().columns
    kind = column.type
    if not (pa.types.is_integer(kind) or str(kind) in ("string", "large_string", "string_view")):
        return [UNKNOWN]
    values: list[Any] = column.to_pylist()
    return values
