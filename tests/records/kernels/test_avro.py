"""The loop over Avro's bytes: what it takes and what it refuses, against values that fastavro writes."""

from __future__ import annotations

import random
import resource
from typing import Any

import pytest

from stratalog.records.kernels.avro import MOST_EMPTY_ITEMS
from tests.profile import examples
from tests.records.avro.values import (
    ORDER,
    decoded,
    encoded,
    in_arrow,
    random_schema,
    random_value,
    record,
    written,
)


@pytest.mark.parametrize("seed", range(examples(2000, quick=100)))
def test_values_of_any_schema_are_what_was_written(seed: int) -> None:
    rng = random.Random(seed)
    schema = random_schema(rng)
    values = [random_value(rng, schema) for _ in range(7)]

    column, reasons = decoded(schema, schema, [encoded(schema, value) for value in values])

    assert reasons == [None] * 7
    assert column.to_pylist() == [in_arrow(schema, value) for value in values]


@pytest.mark.parametrize(
    ("schema", "raw", "says"),
    [
        ("int", b"", "the bytes end before"),
        ("int", b"\x80", "the bytes end before"),
        ("int", written("long", 2**31), "a number is too large"),
        ("long", b"\x80" * 10, "a number is too large"),
        ("long", b"\x00\x00", "more bytes than the value has"),
        ("boolean", b"\x02", "neither 0 nor 1"),
        ("boolean", b"", "the bytes end before"),
        ("float", b"\0\0\0", "the bytes end before"),
        ("double", b"\0" * 7, "the bytes end before"),
        ("string", written("long", -1), "a length is negative"),
        ("string", written("long", 2**62) + b"abc", "the bytes end before"),
        ("string", written("bytes", b"\xff"), "not UTF-8"),
        ("string", written("bytes", b"plain and then \xed\xa0\x80"), "not UTF-8"),
        ({"type": "fixed", "name": "F", "size": 2**31 - 1}, b"abc", "the bytes end before"),
        (["null", "int"], written("long", 2) + b"\0", "no branch of this number"),
        (["null", "int"], written("long", -1) + b"\0", "no branch of this number"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, written("int", 2), "no symbol"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, written("int", -1), "no symbol"),
        ({"type": "array", "items": "int"}, written("long", 2**62), "more items than the bytes"),
        ({"type": "array", "items": "int"}, written("long", -(2**63)) + b"\2\2\0", "more items than the"),
        ({"type": "array", "items": "int"}, written("long", 1), "more items than the bytes"),
        ({"type": "array", "items": "int"}, written("long", 1) + b"\2", "the bytes end before"),
        ({"type": "map", "values": "int"}, written("long", 1) + b"\2", "the bytes end before"),
    ],
)
def test_bytes_that_are_not_such_a_value_have_a_reason(schema: Any, raw: bytes, says: str) -> None:
    column, reasons = decoded(schema, schema, [raw])

    assert column.to_pylist() == [None]
    assert says in (reasons[0] or "")


def test_the_neighbours_of_a_value_that_is_not_valid_are_read() -> None:
    schema = record(("a", "string"), ("b", {"type": "array", "items": "long"}))
    good = [written(schema, {"a": f"text {n}", "b": list(range(n))}) for n in range(5)]
    mixed = [part for value in good for part in (value, value[:-1], None, value + b"!")]

    column, reasons = decoded(schema, schema, mixed)

    assert column.to_pylist()[::4] == [{"a": f"text {n}", "b": list(range(n))} for n in range(5)]
    assert column.null_count == 15
    assert [reason is None for reason in reasons] == [True, False, True, False] * 5


@pytest.mark.parametrize(
    "items", ["null", record(name="Empty"), {"type": "fixed", "name": "F", "size": 0}], ids=str
)
def test_items_without_bytes_are_counted_and_bounded(items: Any) -> None:
    schema = {"type": "array", "items": items}
    few = written("long", MOST_EMPTY_ITEMS) + b"\0"
    in_blocks = written("long", MOST_EMPTY_ITEMS) + written("long", 1) + b"\0"

    column, reasons = decoded(schema, schema, [few, in_blocks, written("long", 2**60) + b"\0"])

    assert [None if value is None else len(value) for value in column.to_pylist()] == [1000, None, None]
    assert [reason is None for reason in reasons] == [True, False, False]


def test_a_value_a_million_levels_deep_has_a_reason() -> None:
    # fastavro reads such a value until the stack of the process is used up.
    node = record(("next", ["null", "Node"]), name="Node")
    writer = record(("id", "int"), ("first", node))
    reader = record(("id", "int"))
    deep = written("int", 7) + written("long", 1) * 1_000_000 + written("long", 0)
    shallow = written("int", 7) + written("long", 1) * 900 + written("long", 0)

    column, reasons = decoded(writer, reader, [deep, shallow])

    assert column.to_pylist() == [None, {"id": 7}]
    assert reasons[0] == "it is nested more than 1,000 levels deep"


def test_any_bytes_are_read_or_have_a_reason_and_need_little_memory() -> None:
    rng = random.Random(7)
    column, _ = decoded(ORDER, ORDER, [b""])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    for _ in range(examples(200)):
        raw = [rng.randbytes(rng.randint(0, 60)) for _ in range(500)]
        column, reasons = decoded(ORDER, ORDER, raw)
        for value, reason in zip(column.is_valid().to_pylist(), reasons, strict=True):
            assert value is (reason is None)

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes
