"""Columns of decoded rows: what each says of a record and of its batch."""

from __future__ import annotations

from stratalog.records.arrays import HEADERS_TYPE
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.columns import ALL_COLUMNS, arrow_schema, read_columns
from stratalog.records.compression import Codec
from tests import naive
from tests.records import golden


def test_what_only_the_log_knows_comes_on_request() -> None:
    options = BatchOptions(
        codec=Codec.ZSTD,
        log_append_time=77,
        partition_leader_epoch=4,
        producer_id=5,
        producer_epoch=6,
        base_sequence=2**31 - 1,
        is_transactional=True,
    )
    data = golden.TWO_RECORDS + build_batch([Record(7, 1), Record(9, 2)], options)

    (part,) = read_columns(data, columns=ALL_COLUMNS, topic="t", partition=3, start_offset=7)

    assert part.select([*ALL_COLUMNS[2:5], *ALL_COLUMNS[6:]]).to_pylist() == [
        {
            "topic": "t",
            "partition": 3,
            "offset": offset,
            "timestampType": 1,
            "headers": None,
            "leaderEpoch": 4,
            "producerId": 5,
            "producerEpoch": 6,
            "sequence": sequence,
            "isTransactional": True,
            "isControl": False,
            "codec": "zstd",
            "position": len(golden.TWO_RECORDS),
        }
        for offset, sequence in [(7, 2**31 - 1), (9, 1)]
    ]


def test_old_messages_have_no_producer_and_v0_no_timestamp_type() -> None:
    data = golden.V0_MESSAGE + golden.V1_MESSAGE

    (part,) = read_columns(data, columns=ALL_COLUMNS)

    columns = ["timestampType", "leaderEpoch", "producerId", "producerEpoch", "sequence", "isControl"]
    assert [list(row.values()) for row in part.select(columns).to_pylist()] == [
        [-1, -1, -1, -1, -1, False],
        [0, -1, -1, -1, -1, False],
    ]


def test_a_header_without_headers_is_null_and_an_empty_value_is_not() -> None:
    data = build_batch([Record(0), Record(1, 0, b"", b"", (("h", None), ("h", b"")))])

    (part,) = read_columns(data, columns=["key", "value", "headers"])

    assert part.to_pylist() == [
        {"key": None, "value": None, "headers": None},
        {"key": b"", "value": b"", "headers": [{"key": "h", "value": None}, {"key": "h", "value": b""}]},
    ]


def test_header_keys_that_are_no_utf8_are_replaced_and_the_others_are_not() -> None:
    inside = naive.Record(0, 0, None, b"v", ((b"\xc3(", b"x"), ("ü".encode(), b"y")))

    (part,) = read_columns(naive.encode_batch([inside]), columns=["headers"])

    part.validate(full=True)
    assert [pair["key"] for pair in part.column("headers")[0].as_py()] == ["\ufffd(", "ü"]


def test_header_keys_that_are_encoded_surrogates_become_what_java_makes_of_them() -> None:
    inside = naive.Record(0, 0, None, b"v", ((b"\xed\xa0\x80", b"x"),))

    (part,) = read_columns(naive.encode_batch([inside]), columns=["headers"])

    assert [pair["key"] for pair in part.column("headers")[0].as_py()] == ["\ufffd"]


def test_the_type_of_headers_has_a_name() -> None:
    assert arrow_schema(["headers"]).field("headers").type == HEADERS_TYPE
