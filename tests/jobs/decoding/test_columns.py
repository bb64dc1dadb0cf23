"""The columns of a read whose keys and values are decoded."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stratalog.errors import UsageError
from stratalog.jobs.decoding.asked import Encoding
from stratalog.jobs.decoding.columns import DecodedColumns
from stratalog.jobs.decoding.decoding import Decoding
from stratalog.jobs.decoding.finding import Decodings
from stratalog.jobs.reading.omissions import Omission, OmissionKind

TEXT = Decodings(Decoding(), Decoding(encoding=Encoding.UTF8))
BATCH = pa.record_batch({"offset": pa.array([1, 2]), "value": pa.array([b"x", b"\xff"], pa.binary())})


def test_columns_come_in_the_order_asked_for_and_what_they_need_is_read() -> None:
    columns = DecodedColumns(names=("undecodedValue", "offset", "value"), decodings=TEXT)

    assert columns.to_read == ("value", "offset")
    assert columns.undecoded == ["undecodedValue"]
    assert columns.rows(BATCH).to_pylist() == [
        {"undecodedValue": None, "offset": 1, "value": "x"},
        {"undecodedValue": b"\xff", "offset": 2, "value": None},
    ]


def test_a_column_that_is_not_asked_for_is_not_read() -> None:
    columns = DecodedColumns(names=("offset",), decodings=TEXT)

    assert columns.to_read == ("offset",)
    assert next(columns.batches([BATCH.select(["offset"])])).to_pylist() == [{"offset": 1}, {"offset": 2}]


def test_a_decoded_column_by_itself_is_decoded() -> None:
    columns = DecodedColumns(names=("value",), decodings=TEXT)

    assert next(columns.batches([BATCH.select(["value"])])).to_pylist() == [{"value": "x"}, {"value": None}]


def test_without_decodings_batches_stay_as_they_are() -> None:
    columns = DecodedColumns(names=("offset", "value"))

    assert next(columns.batches([BATCH])) is BATCH
    assert columns.schema == pa.schema([("offset", pa.int64()), ("value", pa.binary())])


def test_a_column_that_there_is_not_is_refused_with_what_there_is() -> None:
    with pytest.raises(
        UsageError, match="there is no column undecodedKey; the columns are key, value, undecodedV"
    ):
        DecodedColumns(names=("undecodedKey",), decodings=TEXT)


def test_what_could_not_be_decoded_is_told_with_its_place_number_and_reason() -> None:
    told: list[Omission] = []
    columns = DecodedColumns(names=("value",), decodings=TEXT, on_omission=told.append)
    batch = pa.record_batch(
        {
            "value": pa.array([b"x", b"\xff", b"\xfe", None, b"\xff"], pa.binary()),
            "topic": ["orders"] * 5,
            "partition": pa.array([0, 0, 0, 0, 1], pa.int32()),
            "offset": [3, 4, 9, 10, 7],
        }
    )

    assert columns.to_read == ("value", "topic", "partition", "offset")
    assert columns.rows(batch).to_pydict() == {"value": ["x", None, None, None, None]}
    assert [(each.topic_partition, each.first_offset, each.end_offset, each.count) for each in told] == [
        (("orders", 0), 4, 10, 2),
        (("orders", 1), 7, 8, 1),
    ]
    assert {(each.kind, each.column, each.why) for each in told} == {
        (OmissionKind.UNDECODED, "value", "it is not UTF-8")
    }
    assert DecodedColumns(names=("offset",), decodings=TEXT, on_omission=told.append).to_read == ("offset",)
