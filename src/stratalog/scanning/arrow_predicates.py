"""Translates a pyarrow expression to a predicate, as far as it is understood.

pyarrow shows the parts of an expression only in serialized form, as an Arrow batch. The literals are in its
columns. The calls are in its schema's metadata, one line each, in the order of the expression. If anything in
it is not as expected, the whole expression is UNKNOWN.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stratalog.scanning.predicates import (
    ABOVE,
    ALWAYS,
    AT_LEAST,
    AT_MOST,
    BELOW,
    EQUAL,
    KINDS,
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

_LINE = re.compile(r"(call|end|field_ref|nested_field_ref|literal|options): '(\w*)'")
_METADATA = "-- schema metadata --"
_COMPARISONS = {
    "equal": EQUAL,
    "not_equal": UNEQUAL,
    "less": BELOW,
    "less_equal": AT_MOST,
    "greater": ABOVE,
    "greater_equal": AT_LEAST,
}
_NOT_UNDERSTOOD = (ValueError, TypeError, KeyError, IndexError, StopIteration, pa.ArrowException)
_Node = Any  # a predicate, a column's name or a literal, which pyarrow has no types for


def from_arrow(expression: pc.Expression | None) -> Predicate:
    """The predicate of an expression; ALWAYS without one."""
    if expression is None:
        return ALWAYS
    try:
        found, batch = _serialized(expression)
        tokens = iter(found)
        predicate = _as_predicate(_node(next(tokens), tokens, batch))
        return UNKNOWN if next(tokens, None) is not None else predicate
    except _NOT_UNDERSTOOD:
        return UNKNOWN


def fields_of(expression: pc.Expression | None, known: Sequence[str]) -> list[str]:
    """The columns that an expression needs; all known columns if it is not understood."""
    if expression is None:
        return []
    try:
        found, _ = _serialized(expression)
    except _NOT_UNDERSTOOD:
        return list(known)
    return [name for name in known if ("field_ref", name) in found]


def _serialized(expression: pc.Expression) -> tuple[list[tuple[str, str]], pa.RecordBatch]:
    """(the calls, fields and literals in their order, the batch that has the literals)."""
    _, (serialized,) = expression.__reduce__()
    batch = pa.ipc.open_file(serialized).get_batch(0)
    _, found, text = batch.schema.to_string(truncate_metadata=False).partition(_METADATA)
    lines = [_LINE.fullmatch(line) for line in text.strip().splitlines()]
    if not found or None in lines:
        raise ValueError(text)
    return [(match[1], match[2]) for match in lines if match is not None], batch


def _node(token: tuple[str, str], tokens: Iterator[tuple[str, str]], batch: pa.RecordBatch) -> _Node:
    kind, name = token
    if kind == "field_ref":
        return name
    if kind == "literal":
        return batch.column(int(name))[0]
    if kind == "nested_field_ref":
        for _ in range(int(name)):
            next(tokens)
        return UNKNOWN
    if kind != "call":
        raise ValueError(kind)
    arguments: list[_Node] = []
    options: pa.Scalar | None = None
    while (inner := next(tokens)) != ("end", name):
        if inner[0] == "options":
            options = batch.column(int(inner[1]))[0]
        else:
            arguments.append(_node(inner, tokens, batch))
    return _call(name, arguments, options)


def _call(name: str, arguments: list[_Node], options: pa.Scalar | None) -> Predicate:
    match name, arguments:
        case ("and_kleene" | "and", [left, right]):
            return All((_as_predicate(left), _as_predicate(right)))
        case ("or_kleene" | "or", [left, right]):
            return AnyOf((_as_predicate(left), _as_predicate(right)))
        case ("invert", [part]):
            return ~_as_predicate(part)
        case ("is_valid", [str(column)]) if column in KINDS:
            return ALWAYS
        case ("is_null", [str(column)]) if column in KINDS:
            return NEVER
        case ("is_in", [str(column)]) if options is not None:
            return one_of(column, [_value(each) for each in options["value_set"].values])
        case ("if_else", [condition, then, _]) if _as_predicate(condition) == ALWAYS:
            return _as_predicate(then)
        case (comparison, [str(column), pa.Scalar() as value]) if comparison in _COMPARISONS:
            return compared(column, _COMPARISONS[comparison], _value(value))
        case (comparison, [pa.Scalar() as value, str(column)]) if comparison in _COMPARISONS:
            return compared(column, MIRRORED[_COMPARISONS[comparison]], _value(value))
    return UNKNOWN


def _as_predicate(node: _Node) -> Predicate:
    if isinstance(node, pa.BooleanScalar):
        return ALWAYS if node.as_py() else NEVER  # a null is not true either
    return node if isinstance(node, Predicate) else UNKNOWN


def _value(scalar: pa.Scalar) -> object:
    """The value of a literal; times as microseconds if they have a zone, as the column does."""
    if pa.types.is_timestamp(scalar.type):
        return scalar.cast(pa.timestamp("us", tz=scalar.type.tz)).value if scalar.type.tz else UNKNOWN
    return scalar.as_py()
