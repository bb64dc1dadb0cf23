"""Avro's values as Arrow columns; fastavro writes the bytes."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.records.avro.values import ORDER, decoded, record, written

VALUE = {
    "id": 7,
    "note": None,
    "state": "PAID",
    "before": "NEW",
    "lines": [{"a": 1.5}, {}],
    "price": decimal.Decimal("-12.50"),
    "made": datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC),
    "due": datetime.date(2023, 11, 14),
    "tag": b"abc",
    "place": uuid.UUID("b5d1a8a1-6f0e-4e0e-9a1c-0a3f6d1c2b3a"),
}


def test_a_value_is_what_was_written() -> None:
    column, reasons = decoded(ORDER, ORDER, [written(ORDER, VALUE), None])

    expected = {**VALUE, "lines": [[("a", 1.5)], []], "place": str(VALUE["place"])}
    assert column.to_pylist() == [expected, None]
    assert reasons == [None, None]


@pytest.mark.parametrize(
    ("logical", "written_as", "number", "micros"),
    [
        ("timestamp-millis", "long", 1_700_000_000_123, 1_700_000_000_123_000),
        ("timestamp-micros", "long", 1_700_000_000_123_456, 1_700_000_000_123_456),
        ("local-timestamp-millis", "long", -1, -1000),
        ("local-timestamp-micros", "long", -1, -1),
        ("timestamp-micros", "long", 2**62, 2**62),
        ("timestamp-millis", "long", 2**53, 2**53 * 1000),
    ],
)
def test_times_are_microseconds_also_beyond_the_year_9999(
    logical: str, written_as: str, number: int, micros: int
) -> None:
    schema = {"type": written_as, "logicalType": logical}

    column, reasons = decoded(schema, schema, [written(written_as, number)])

    assert column.cast(pa.int64()).to_pylist() == [micros]
    assert reasons == [None]
    assert column.type.tz == (None if logical.startswith("local") else "UTC")


def test_a_time_that_microseconds_cannot_hold_has_a_reason() -> None:
    schema = {"type": "long", "logicalType": "timestamp-millis"}

    column, reasons = decoded(schema, schema, [written("long", 2**60), written("long", -(2**63))])

    assert column.to_pylist() == [None, None]
    assert reasons == ["a time is too far from 1970 for a number of microseconds"] * 2


@pytest.mark.parametrize("digits", [1, 9, 18, 19, 20, 37, 38])
@pytest.mark.parametrize("is_fixed", [False, True])
def test_decimals_are_exact_up_to_their_digits(digits: int, is_fixed: bool) -> None:
    scale = digits // 2
    kind = {"type": "fixed", "name": "D", "size": 17} if is_fixed else {"type": "bytes"}
    schema = {**kind, "logicalType": "decimal", "precision": digits, "scale": scale}
    most = 10**digits - 1
    numbers = [0, 1, -1, most, -most, most // 3, most + 1, -most - 1]

    def raw(number: int) -> bytes:
        size = 17 if is_fixed else (number.bit_length() + 8) // 8
        return written({**kind}, number.to_bytes(size, "big", signed=True))

    column, reasons = decoded(schema, schema, [raw(number) for number in numbers])

    shift = decimal.Context(prec=60)
    expected = [decimal.Decimal(number).scaleb(-scale, shift) for number in numbers[:6]]
    assert column.to_pylist() == [*expected, None, None]
    assert reasons[6:] == ["a decimal has more digits than its type"] * 2


@pytest.mark.parametrize("raw", [b"\x7f" + b"\xff" * 16, b"\x80" + b"\0" * 16, b"\1" + b"\0" * 40, b""])
def test_a_decimal_of_more_than_128_bits_or_none_has_a_reason(raw: bytes) -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 38}

    column, reasons = decoded(schema, schema, [written("bytes", raw), written("bytes", b"\xff" * 40)])

    assert column.to_pylist() == [None, decimal.Decimal(-1)]
    assert reasons[0] == "a decimal has more digits than its type"


@pytest.mark.parametrize(
    ("schema", "value", "arrow"),
    [
        (["null"], None, None),
        (["null", "int"], 5, 5),
        (["int", "long"], 2**40, 2**40),
        (["long", "null", "int"], 5, 5),
        (["float", "double"], 1.5, 1.5),
        (["int", "string"], "x", {"member0": None, "member1": "x"}),
        (["null", "int", "string"], None, None),
        (["null", "int", "string"], 5, {"member0": 5, "member1": None}),
        (
            [record(("a", "int"), name="A"), record(("b", "int"), name="B")],
            ("B", {"b": 1}),
            {"member0": None, "member1": {"b": 1}},
        ),
        (
            [{"type": "array", "items": ["null", "int", "boolean"]}, "null"],
            [True, None, 3],
            [{"member0": None, "member1": True}, None, {"member0": 3, "member1": None}],
        ),
    ],
    ids=str,
)
def test_a_union_is_a_column_or_a_struct_of_its_members(schema: Any, value: Any, arrow: Any) -> None:
    column, reasons = decoded(schema, schema, [written(schema, value)])

    assert column.to_pylist() == [arrow]
    assert reasons == [None]


def test_no_values_are_an_empty_column() -> None:
    column, reasons = decoded(ORDER, ORDER, [])

    assert len(column) == 0
    assert reasons == []


def test_a_record_without_fields_is_true_where_it_is() -> None:
    schema = ["null", record(name="Begun"), record(("at", "long"), name="Ended")]
    values = [None, ("Begun", {}), ("Ended", {"at": 5})]

    column, _ = decoded(schema, schema, [written(schema, value) for value in values])

    assert column.to_pylist() == [
        None,
        {"member0": True, "member1": None},
        {"member0": None, "member1": {"at": 5}},
    ]
    pq.write_table(pa.table({"value": column}), pa.BufferOutputStream())
