"""Keys and values decoded on their way out; Avro's bytes are written by fastavro, its types by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import UsageError
from stratalog.jobs.exporting.decoding import Decoding, Encoding
from tests.jobs.exporting.avro_values import ORDER, avro, written


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_kept(raw: bytes) -> None:
    decoded, undecoded = avro(ORDER).decode(pa.array([raw], pa.binary()))

    assert decoded.is_valid()[0].as_py() or undecoded[0].as_py() == raw


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

    decoded, undecoded = avro(schema).decode(pa.array(raw, pa.binary()))

    assert decoded.is_valid().to_pylist() == [True, False, False]
    assert undecoded.to_pylist() == [None, raw[1], None]


@pytest.mark.parametrize(
    ("raw", "is_json"),
    [
        (b"1" * 5000, True),
        (b'{"a": [1e999, -0]}', True),
        (b"NaN", False),
        (b'{"a": -Infinity}', False),
        (b"", False),
        (b"1 2", False),
    ],
    ids=lambda each: each[:12].decode() if isinstance(each, bytes) else "",
)
def test_json_is_what_other_programs_take_for_it(raw: bytes, is_json: bool) -> None:
    decoded, undecoded = Decoding(encoding=Encoding.JSON).decode(pa.array([raw], pa.binary()))

    assert decoded.to_pylist() == [raw.decode() if is_json else None]
    assert undecoded.to_pylist() == [None if is_json else raw]


@given(st.binary(max_size=20))
def test_text_is_decoded_or_kept(raw: bytes) -> None:
    decoded, undecoded = Decoding(encoding=Encoding.UTF8).decode(pa.array([raw, b"x"], pa.binary()))

    try:
        text: str | None = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    assert decoded.to_pylist() == [text, "x"]
    assert undecoded.to_pylist() == [raw if text is None else None, None]


def test_avro_needs_a_schema_and_nothing_else_does() -> None:
    with pytest.raises(UsageError, match="avro needs a schema"):
        Decoding(encoding=Encoding.AVRO)
    with pytest.raises(UsageError, match="the encoding is json"):
        Decoding(encoding=Encoding.JSON, schema="{}")
