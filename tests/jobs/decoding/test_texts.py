"""Bytes as text and JSON."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.jobs.decoding.texts import NOT_JSON, NOT_UTF8, TOO_DEEP, decode_json, decode_utf8


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"1" * 5000, None),
        (b'{"a": [1e999, -0]}', None),
        (b"NaN", NOT_JSON),
        (b'{"a": -Infinity}', NOT_JSON),
        (b"", NOT_JSON),
        (b"1 2", NOT_JSON),
        (b'"\xff"', NOT_UTF8),
        (b"[" * 100_000, TOO_DEEP),
    ],
    ids=lambda each: str(each)[:12],
)
def test_json_is_what_other_programs_take_for_it(raw: bytes, reason: str | None) -> None:
    decoded, (undecoded, reasons) = decode_json(pa.array([raw], pa.binary()))

    assert decoded.to_pylist() == [raw.decode() if reason is None else None]
    assert undecoded.to_pylist() == [None if reason is None else raw]
    assert reasons.to_pylist() == [reason]


@given(st.binary(max_size=20))
def test_text_is_decoded_or_kept(raw: bytes) -> None:
    decoded, (undecoded, _) = decode_utf8(pa.array([raw, b"x"], pa.binary()))

    try:
        text: str | None = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    assert decoded.to_pylist() == [text, "x"]
    assert undecoded.to_pylist() == [raw if text is None else None, None]
