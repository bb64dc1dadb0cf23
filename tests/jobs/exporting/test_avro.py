"""Avro's schemas as Arrow types, and its values decoded; fastavro writes the bytes."""

from __future__ import annotations

import decimal
import json
import sys

import pyarrow as pa
import pytest

from stratalog.errors import MissingDependencyError, UsageError
from stratalog.jobs.exporting.avro import arrow_type, value_decoder
from stratalog.jobs.exporting.decoding import Encoding
from tests.jobs.exporting.avro_values import ORDER, avro, written

VALUE = {
    "id": 7,
    "note": None,
    "state": "PAID",
    "before": "NEW",
    "lines": [{"a": 1.5}, {}],
    "price": decimal.Decimal("12.50"),
    "made": 1_700_000_000_000_000,
    "due": 19_675,
    "tag": b"abc",
    "place": "b5d1a8a1-6f0e-4e0e-9a1c-0a3f6d1c2b3a",
}
PLAIN = json.loads(json.dumps(ORDER).replace('"logicalType": "uuid"', '"doc": ""'))


def test_a_record_becomes_a_struct() -> None:
    assert arrow_type(json.dumps(ORDER)) == pa.struct(
        [
            ("id", pa.int64()),
            ("note", pa.string()),
            ("state", pa.string()),
            ("before", pa.string()),
            ("lines", pa.list_(pa.map_(pa.string(), pa.float64()))),
            ("price", pa.decimal128(9, 2)),
            ("made", pa.timestamp("us", tz="UTC")),
            ("due", pa.date32()),
            ("tag", pa.binary()),
            ("place", pa.string()),
        ]
    )


def test_a_type_that_is_named_in_full_is_the_one_of_its_namespace() -> None:
    in_full = json.dumps(ORDER).replace('["null", "State"]', '["null", "shop.State"]')

    assert arrow_type(in_full) == arrow_type(json.dumps(ORDER))
    with pytest.raises(UsageError, match=r"'store.State', which does not exist"):
        arrow_type(in_full.replace("shop.State", "store.State"))


def test_a_value_is_what_was_written() -> None:
    decoded, undecoded = avro(ORDER).decode(pa.array([written(PLAIN, VALUE), None], pa.binary()))

    first = decoded[0].as_py()
    assert first["made"].isoformat() == "2023-11-14T22:13:20+00:00"
    assert first["due"].isoformat() == "2023-11-14"
    assert first["lines"] == [[("a", 1.5)], []]
    same = ("id", "note", "state", "before", "price", "tag", "place")
    assert {name: first[name] for name in same} == {name: VALUE[name] for name in same}
    assert decoded[1].as_py() is None
    assert undecoded.null_count == 2


def test_a_time_beyond_the_year_9999_is_kept() -> None:
    schema = {"type": "long", "logicalType": "timestamp-millis"}

    decoded, undecoded = avro(schema).decode(pa.array([written("long", 2**60)], pa.binary()))

    assert decoded.cast(pa.int64()).to_pylist() == [2**60]
    assert undecoded.null_count == 1


def test_the_number_of_a_schema_before_the_value_is_passed_over() -> None:
    framed = b"\0\0\0\0\x2a" + written("string", "x")

    decoded, undecoded = avro("string", Encoding.CONFLUENT_AVRO).decode(
        pa.array([framed, b"\1" + framed, b"\0"], pa.binary())
    )

    assert decoded.to_pylist() == ["x", None, None]
    assert undecoded.to_pylist() == [None, b"\1" + framed, b"\0"]


def test_bytes_behind_a_value_are_no_such_value() -> None:
    value = written("string", "x")

    assert avro("string").decode(pa.array([value + b"!"], pa.binary()))[1].to_pylist() == [value + b"!"]


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("{", "not JSON"),
        ('"strin"', "names the Avro type 'strin', which does not exist"),
        ('["null", "int", "string"]', "is a union of 2 types"),
        ('{"name": "x"}', "is not an Avro type"),
        ('{"type": "record", "name": "R"}', "R has no list of fields"),
        ('{"type": "record", "name": "R", "fields": ["x"]}', "a field of the Avro record R has no name"),
        ('{"type": "record", "name": "R", "fields": [{"name": "x"}]}', "or no type"),
        ('{"type": "enum", "name": "E"}', "cannot be used"),
        ('{"type": "enum", "name": "E", "symbols": ["a b"]}', "cannot be used"),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 50}', "a decimal of 50 digits"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}',
            "contains itself",
        ),
    ],
)
def test_a_schema_that_no_column_can_have_is_told(schema: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        value_decoder(schema)


def test_where_fastavro_is_missing_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)

    with pytest.raises(MissingDependencyError, match=r"pip install 'stratalog\[avro\]'"):
        value_decoder('"string"')
