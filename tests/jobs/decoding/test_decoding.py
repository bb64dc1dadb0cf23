"""Columns of keys and values decoded; Avro's bytes are written by fastavro."""

from __future__ import annotations

import json
import pickle
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import SchemaError
from stratalog.jobs.decoding.asked import Encoding
from stratalog.jobs.decoding.decoding import Decoding
from stratalog.jobs.decoding.store import SchemaStore, SchemaVersion, StoredSchema
from tests.records.avro.values import ORDER, record, written


def avro(writer: Any, reader: Any | None = None) -> Decoding:
    schemas = [StoredSchema(id=0, text=json.dumps(each)) for each in (writer, reader or writer)]
    return Decoding(encoding=Encoding.AVRO, writer=schemas[0], reader=schemas[1])


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_kept_with_a_reason(raw: bytes) -> None:
    decoded, undecoded, reasons = avro(ORDER).decode(pa.array([raw, None], pa.binary()))

    if decoded.is_valid()[0].as_py():
        assert undecoded.null_count == reasons.null_count == 2
    else:
        assert undecoded.to_pylist() == [raw, None]
        assert reasons[0].as_py()


@pytest.mark.parametrize(
    ("schema", "plain", "value"),
    [
        ("int", "long", 2**40),
        ({"type": "int", "logicalType": "date"}, "long", -(2**40)),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, [1, 2**31]),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            "bytes",
            (10**12).to_bytes(8, "big"),
        ),
    ],
)
def test_a_number_that_its_type_cannot_hold_is_kept_and_its_neighbours_are_decoded(
    schema: Any, plain: Any, value: object
) -> None:
    small = {"bytes": b"\x01", "long": 1}.get(plain, [1]) if isinstance(plain, str) else [1]
    raw = [written(plain, small), written(plain, value), None]

    decoded, undecoded, _ = avro(schema).decode(pa.array(raw, pa.binary()))

    assert decoded.is_valid().to_pylist() == [True, False, False]
    assert undecoded.to_pylist() == [None, raw[1], None]


def test_values_of_one_schema_are_read_as_another() -> None:
    writer = record(("a", "int"))
    reader = record(("a", "long"), {"name": "b", "type": "string", "default": "x"})

    decoded, *_ = avro(writer, reader).decode(pa.array([written(writer, {"a": 1})], pa.binary()))

    assert decoded.to_pylist() == [{"a": 1, "b": "x"}]


def test_avro_needs_no_other_package(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = written("string", "x")
    for name in ("fastavro", "avro"):
        monkeypatch.setitem(sys.modules, name, None)

    assert avro("string").decode(pa.array([raw], pa.binary()))[0].to_pylist() == ["x"]


def test_schemas_that_do_not_match_are_told_at_once() -> None:
    with pytest.raises(SchemaError, match="cannot be read as int"):
        avro("string", "int").type  # noqa: B018


@pytest.mark.parametrize("encoding", [Encoding.UTF8, Encoding.JSON])
def test_text_has_a_reason_column_too(encoding: Encoding) -> None:
    decoding = Decoding(encoding=encoding)

    texts, undecoded, reasons = decoding.decode(pa.array([b'"x"', b"\xff", None], pa.binary()))

    assert texts.to_pylist() == ['"x"', None, None]
    assert undecoded.to_pylist() == [None, b"\xff", None]
    assert reasons.to_pylist() == [None, "it is not UTF-8", None]
    assert decoding.fields("key") == [
        ("key", pa.string()),
        ("undecodedKey", pa.binary()),
        ("undecodedKeyReason", pa.string()),
    ]


def test_bytes_stay_as_they_are() -> None:
    column = pa.array([b"\xff", None], pa.binary())

    assert Decoding().decode(column) == [column]
    assert Decoding().fields("value") == [("value", pa.binary())]


def test_a_decoding_travels_before_and_after_it_is_used() -> None:
    schema = StoredSchema(id=7, text='"string"')
    store = SchemaStore({SchemaVersion("orders-value", 1): schema})
    decoding = Decoding(encoding=Encoding.CONFLUENT, reader=schema, store=store)
    column = pa.array([b"\0\0\0\0\7" + written("string", "x")], pa.binary())
    fresh = pickle.loads(pickle.dumps(decoding))
    decoding.decode(column)

    for arrived in (fresh, pickle.loads(pickle.dumps(decoding))):
        assert arrived == decoding
        assert [each.to_pylist() for each in arrived.decode(column)] == [["x"], [7], [None], [None]]
