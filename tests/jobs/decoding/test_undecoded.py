"""The bytes and reasons of what could not be decoded."""

from __future__ import annotations

import pyarrow as pa

from stratalog.jobs.decoding.undecoded import Undecoded


def test_only_rows_with_a_reason_have_their_bytes() -> None:
    column = pa.array([b"a", b"", None, b"d"], pa.binary())

    raw, reasons = Undecoded.of(column, {1: "empty", 3: "odd"})

    assert raw.to_pylist() == [None, b"", None, b"d"]
    assert reasons.to_pylist() == [None, "empty", None, "odd"]


def test_without_reasons_all_is_null() -> None:
    raw, reasons = Undecoded.of(pa.array([b"a", None], pa.binary()), {})

    assert (raw.type, reasons.type) == (pa.binary(), pa.string())
    assert raw.null_count == reasons.null_count == 2
