"""Lines from decoded rows; tests/questions/test_printing.py compares them with those of Arrow columns."""

from __future__ import annotations

import pytest

from stratalog.errors import UsageError
from stratalog.records.build import Record, build_batch
from stratalog.records.columns import read_columns
from stratalog.records.kernels.lines import KEY, OFFSET, PACKED_SIZE, TEXT, VALUE
from stratalog.records.lines import LineMaker

BATCH = build_batch([Record(0, 1, b"k", b"v" * 100), Record(1, 1, None, None), Record(2, 1, b"", b"w")])


def test_lines_are_a_column_beside_others() -> None:
    maker = LineMaker([(OFFSET, b""), (TEXT, b" "), (KEY, b"-"), (VALUE, b"NULL"), (TEXT, b"\n")])

    (found,) = read_columns(BATCH, columns=["offset"], made={"line": maker})

    found.validate(full=True)
    assert found.schema.names == ["line", "offset"]
    assert found.column("line").to_pylist() == [b"0 k" + b"v" * 100 + b"\n", b"1 -NULL\n", b"2 w\n"]


def test_a_line_of_nothing_is_empty() -> None:
    (found,) = read_columns(BATCH, columns=[], made={"line": LineMaker([])})

    assert found.column("line").to_pylist() == [b"", b"", b""]


def test_packed_sizes_need_no_text() -> None:
    (found,) = read_columns(BATCH, columns=[], made={"line": LineMaker([(PACKED_SIZE, b"")])})

    assert b"".join(found.column("line").to_pylist()) == b"\0\0\0d\xff\xff\xff\xff\0\0\0\1"


def test_more_bytes_than_arrow_can_hold_are_refused() -> None:
    maker = LineMaker([(TEXT, bytes(1 << 20))] * 800)

    with pytest.raises(UsageError, match="print the key or the value only once"):
        list(read_columns(BATCH, columns=[], made={"line": maker}))
