"""Arrow batches as lines. tests/kafka/test_cat.py compares them with kcat's."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from stratalog.files.names import TopicPartition
from stratalog.questions.formats import parse_format
from stratalog.questions.lines import JSON_COLUMNS, Style, bytes_of, escaped_rows, printed
from stratalog.records.arrays import TYPES

ROWS: list[dict[str, Any]] = [
    {"key": b"k", "value": b"v\n1", "headers": [{"key": "a", "value": b"1"}, {"key": "n", "value": None}]},
    {"key": None, "value": None, "headers": []},
    {"key": b"", "value": "é".encode(), "headers": None},
]
PLACE = {"topic": "orders", "partition": 3, "timestampType": 0}


def batch(rows: list[dict[str, Any]] = ROWS) -> pa.RecordBatch:
    found = [
        PLACE | {"offset": 7 + number, "timestamp": (1_700_000_000_000 + number) * 1000} | row
        for number, row in enumerate(rows)
    ]
    schema = pa.schema([(name, TYPES[name]) for name in JSON_COLUMNS])
    return pa.RecordBatch.from_pylist(found, schema=schema)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%s|", b"v\n1||\xc3\xa9|"),
        ("%S %K,", b"3 1,-1 -1,2 0,"),
        ("%R", b"\0\0\0\3\xff\xff\xff\xff\0\0\0\2"),
        ("%t-%p:%o\\n", b"orders-3:7\norders-3:8\norders-3:9\n"),
        ("%T ", b"1700000000000 1700000000001 1700000000002 "),
        ("%h;", b"a=1,n=NULL;;;"),
        ("x", b"xxx"),
        ("", b""),
    ],
)
def test_each_letter_is_printed(text: str, expected: bytes) -> None:
    assert bytes(bytes_of(Style(format=parse_format(text)).lines(batch()))) == expected


def test_null_is_marked_if_that_is_wanted() -> None:
    style = Style(format=parse_format("%k=%s "), marks_null=True)

    assert bytes(bytes_of(style.lines(batch()))) == "k=v\n1 NULL=NULL =é ".encode()


def test_a_slice_has_the_bytes_of_its_lines_only() -> None:
    lines = Style(format=parse_format("%o\\n")).lines(batch())

    assert bytes(bytes_of(lines.slice(1, 1))) == b"8\n"
    assert bytes(bytes_of(lines.slice(3))) == b""


def test_headers_and_json_cannot_be_made_from_rows() -> None:
    place = TopicPartition("orders", 0)

    assert Style(format=None).maker(place) is None
    assert Style(format=parse_format("%s %h")).maker(place) is None
    assert Style(format=parse_format("%t %p %s")).maker(place) is not None


def test_json_has_an_object_for_each_record() -> None:
    lines = bytes(bytes_of(Style(format=None).lines(batch()))).decode().splitlines()

    assert [json.loads(line) for line in lines] == [
        {
            "topic": "orders",
            "partition": 3,
            "offset": 7,
            "tstype": "create",
            "ts": 1700000000000,
            "headers": ["a", "1", "n", None],
            "key": "k",
            "payload": "v\n1",
        },
        {
            "topic": "orders",
            "partition": 3,
            "offset": 8,
            "tstype": "create",
            "ts": 1700000000001,
            "key": None,
            "payload": None,
        },
        {
            "topic": "orders",
            "partition": 3,
            "offset": 9,
            "tstype": "create",
            "ts": 1700000000002,
            "key": "",
            "payload": "é",
        },
    ]


def test_bytes_that_are_not_text_are_still_json() -> None:
    (line,) = bytes(bytes_of(Style(format=None).lines(batch([{"value": b"\xff\0"}])))).splitlines()

    assert json.loads(line)["payload"] == "\\xff\0"


def test_base64_keeps_every_byte_and_says_so() -> None:
    rows = [{"key": b"\xff\xfe", "value": b"", "headers": [{"key": "h", "value": b"\0"}]}, {"key": None}]
    lines = bytes(bytes_of(Style(format=None, in_base64=True).lines(batch(rows)))).splitlines()

    first, second = map(json.loads, lines)
    assert (first["encoding"], first["key"], first["payload"]) == ("base64", "//4=", "")
    assert first["headers"] == ["h", "AA=="]
    assert (second["encoding"], second["key"], second["payload"]) == ("base64", None, None)


def test_rows_with_bytes_that_are_not_text_are_found() -> None:
    header = [{"key": "h", "value": b"\xff"}, {"key": "n", "value": None}]
    rows = [{"value": b"a"}, {"value": b"\xff"}, {"key": b"\xc3"}, {"headers": header}, {"key": "é".encode()}]
    found = escaped_rows(batch(rows))

    assert found is not None
    assert found.tolist() == [False, True, True, True, False]
    assert escaped_rows(batch(rows[:1])) is None


def test_what_could_not_be_decoded_is_printed_as_it_is() -> None:
    values = pa.array([{"id": 1}, None, None], pa.struct([("id", pa.int64())]))
    raw = pa.array([None, b"\1bad", None], pa.binary())
    found = pa.RecordBatch.from_pydict({"value": values, "undecodedValue": raw})

    assert printed(found, "value").to_pylist() == [b'{"id":1}', b"\1bad", None]


def test_text_that_is_json_is_not_quoted_again() -> None:
    style = Style(format=None, json_parts=frozenset({"value"}))
    (line,) = bytes(bytes_of(style.lines(batch([{"value": b'{"a": [1, 2]}'}])))).splitlines()

    assert json.loads(line)["payload"] == {"a": [1, 2]}
