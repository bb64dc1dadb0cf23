"""Batches built from records and from Arrow: Kafka's bytes where there is no codec, and what is refused."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import InvalidBatchError
from stratalog.records.batch import BatchHeader
from stratalog.records.build import BatchOptions, Record, build_batch, build_batches, encode_batch
from stratalog.records.compression import Codec
from stratalog.records.control import ControlType, EndTxnMarker
from tests import naive
from tests.records import golden
from tests.records.strategies import as_naive, plain, records


def test_the_golden_batch_of_two_records_is_built() -> None:
    assert build_batch(golden.TWO_RECORDS_INSIDE) == golden.TWO_RECORDS


def test_the_golden_marker_is_built() -> None:
    marker = EndTxnMarker(ControlType.COMMIT, 347)
    options = BatchOptions(
        producer_id=73,
        producer_epoch=13,
        partition_leader_epoch=29,
        is_transactional=True,
        is_control=True,
    )

    assert build_batch([Record(983, 1000, marker.key_bytes(), marker.value_bytes())], options) == (
        golden.COMMIT_MARKER
    )


def test_the_golden_tombstones_are_built() -> None:
    options = BatchOptions(delete_horizon_ms=86_401_000, partition_leader_epoch=0)
    cleaned = BatchOptions(delete_horizon_ms=101_000)

    assert build_batch(golden.TOMBSTONE_INSIDE, options) == golden.TOMBSTONE
    assert build_batch(golden.CLEANED_V0_TOMBSTONE_INSIDE, cleaned) == golden.CLEANED_V0_TOMBSTONE
    assert build_batch(golden.CLEANED_V0_RECORD_INSIDE) == golden.CLEANED_V0_RECORD


def test_the_golden_empty_batch_is_encoded() -> None:
    assert encode_batch(BatchHeader.unpack(golden.EMPTY_BATCH), []) == golden.EMPTY_BATCH


def test_the_golden_record_with_headers_is_encoded() -> None:
    batch = build_batch([Record(0, 0, None, b"v", (("h1", b"x"), ("h2", None)))])

    assert batch[61:] == golden.RECORD_WITH_HEADERS


@given(records())
def test_a_batch_without_a_codec_is_the_twins_byte_for_byte(made: list[Record]) -> None:
    assert build_batch(made) == naive.encode_batch([as_naive(record) for record in made])


@given(records(), st.sampled_from(Codec))
def test_the_records_are_in_the_batch_whatever_the_codec(made: list[Record], codec: Codec) -> None:
    batch = build_batch(made, BatchOptions(codec=codec))

    assert naive.decode(batch, plain) == [as_naive(record) for record in made]
    assert BatchHeader.unpack(batch).codec is codec


def test_every_option_stands_in_the_header() -> None:
    options = BatchOptions(
        codec=Codec.LZ4,
        log_append_time=99,
        partition_leader_epoch=5,
        producer_id=6,
        producer_epoch=7,
        base_sequence=8,
        is_transactional=True,
    )

    header = BatchHeader.unpack(build_batch([Record(3, 40), Record(9, 41)], options))

    assert header == BatchHeader(
        base_offset=3,
        batch_length=header.batch_length,
        partition_leader_epoch=5,
        magic=2,
        crc=header.crc,
        attributes=0x1B,
        last_offset_delta=6,
        base_timestamp=40,
        max_timestamp=99,
        producer_id=6,
        producer_epoch=7,
        base_sequence=8,
        records_count=2,
    )


def test_a_higher_level_compresses_further() -> None:
    made = [Record(i, 0, None, f"value {i * 7919 % 1000} of many".encode()) for i in range(500)]

    fast, best = (build_batch(made, BatchOptions(codec=Codec.GZIP, level=level)) for level in (1, 9))

    assert len(best) < len(fast)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ([], "at least one record"),
        ([Record(5), Record(5)], "ascend"),
        ([Record(5), Record(4)], "ascend"),
        ([Record(-1)], "0 or more"),
        ([Record(0, -2)], "-2 is negative"),
        ([Record(0), Record(2**31)], "do not fit one batch"),
        ([Record(2**63)], "does not fit in 64 bits"),
        ([Record(0, 2**63)], "does not fit in 64 bits"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_kafkas_builder_refuses_is_refused(made: list[Record], reason: str) -> None:
    with pytest.raises(InvalidBatchError, match=reason):
        build_batch(made)


def test_the_widest_batch_is_built() -> None:
    batch = build_batch([Record(0), Record(2**31 - 1)])

    assert BatchHeader.unpack(batch).last_offset == 2**31 - 1


@pytest.mark.parametrize(
    "options",
    [
        {"is_transactional": True},
        {"producer_id": 1, "base_sequence": 0},
        {"producer_id": 1, "producer_epoch": 0},
    ],
)
def test_half_a_producer_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(InvalidBatchError):
        BatchOptions(**options)


def test_a_level_that_the_codec_has_not_is_refused() -> None:
    with pytest.raises(InvalidBatchError, match="no compression level"):
        build_batch([Record(0)], BatchOptions(codec=Codec.SNAPPY, level=1))


VALUES = pa.record_batch({"value": pa.array([b"a", None, b""], pa.binary())})


def test_rows_of_values_alone_get_offsets_and_no_timestamps() -> None:
    (batch,) = build_batches(VALUES, base_offset=7)

    assert naive.decode(batch, plain) == [
        naive.Record(7, -1, None, b"a"),
        naive.Record(8, -1, None, None),
        naive.Record(9, -1, None, b""),
    ]


def test_a_batch_is_closed_before_its_size_is_passed() -> None:
    table = pa.table({"value": [b"x" * 100] * 10})

    batches = list(build_batches(table, batch_size=300))

    assert [len(batch) <= 300 for batch in batches] == [True] * len(batches)
    assert [naive.walk(batch)[0][0].records_count for batch in batches] == [2] * 5


def test_a_record_above_the_size_has_a_batch_of_its_own() -> None:
    table = pa.table({"value": [b"", b"x" * 1000, b""]})

    assert [naive.walk(batch)[0][0].records_count for batch in build_batches(table, batch_size=100)] == [
        1,
        1,
        1,
    ]


def test_sequences_go_on_from_batch_to_batch_and_wrap() -> None:
    options = BatchOptions(producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)

    batches = build_batches(pa.table({"value": [b"x" * 100] * 5}), options, batch_size=300)

    assert [naive.walk(batch)[0][0].base_sequence for batch in batches] == [2**31 - 2, 0, 2]


def test_offsets_and_sequences_go_on_over_the_chunks_of_a_table() -> None:
    table = pa.Table.from_batches([VALUES, VALUES])
    options = BatchOptions(producer_id=1, producer_epoch=0, base_sequence=0)

    found = [naive.walk(batch)[0][0] for batch in build_batches(table, options)]

    assert [(batch.base_offset, batch.base_sequence) for batch in found] == [(0, 0), (3, 3)]


def test_the_offsets_of_a_column_are_kept() -> None:
    rows = pa.record_batch({"value": [b"a", b"b"], "offset": pa.array([5, 9], pa.int64())})

    (batch,) = build_batches(rows)

    assert [record.offset for record in naive.decode(batch, plain)] == [5, 9]


MOMENT = datetime.datetime(2023, 11, 14, 22, 13, 20, 1000, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    "timestamps",
    [
        pa.array([1_700_000_000_001, None], pa.int64()),
        pa.array([MOMENT, None], pa.timestamp("us", "UTC")),
        pa.array([MOMENT, None], pa.timestamp("ms", "UTC")),
        pa.array([MOMENT.replace(tzinfo=None), None], pa.timestamp("ns")),
    ],
    ids=lambda array: str(array.type),
)
def test_timestamps_of_any_unit_become_milliseconds_and_null_none(timestamps: pa.Array) -> None:
    rows = pa.record_batch({"value": [b"", b""], "timestamp": timestamps})

    (batch,) = build_batches(rows)

    assert [record.timestamp for record in naive.decode(batch, plain)] == [1_700_000_000_001, -1]


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def test_headers_of_a_slice_are_the_slices_own() -> None:
    lists = [
        [{"key": "before", "value": b"0"}],
        [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        None,
        [],
        [{"key": "c", "value": b""}],
    ]
    rows = pa.record_batch({"value": [b"v"] * 5, "headers": pa.array(lists, HEADERS)}).slice(1)

    (batch,) = build_batches(rows)

    assert [record.headers for record in naive.decode(batch, plain)] == [
        ((b"a", b"1"), (b"b", None)),
        (),
        (),
        ((b"c", b""),),
    ]


@pytest.mark.parametrize("binary", [pa.binary(), pa.large_binary(), pa.string(), pa.binary_view()], ids=str)
def test_keys_and_values_may_be_of_any_binary_type(binary: pa.DataType) -> None:
    rows = pa.record_batch(
        {"key": pa.array(["k", None], pa.string()).cast(binary), "value": pa.array(["v", ""]).cast(binary)}
    )

    (batch,) = build_batches(rows.slice(0))

    assert [(record.key, record.value) for record in naive.decode(batch, plain)] == [
        (b"k", b"v"),
        (None, b""),
    ]


def test_rows_behind_a_slice_are_not_written() -> None:
    rows = pa.record_batch({"key": [b"a", None, b"c", b"d"], "value": [b"1", b"2", None, b"4"]}).slice(1, 2)

    (batch,) = build_batches(rows)

    assert [(record.key, record.value) for record in naive.decode(batch, plain)] == [
        (None, b"2"),
        (b"c", None),
    ]


def test_no_rows_are_no_batches() -> None:
    assert list(build_batches(VALUES.slice(0, 0))) == []


@pytest.mark.parametrize(
    "rows",
    [
        pa.record_batch({"key": [b"k"]}),
        pa.record_batch({"value": [b"v"], "colour": ["red"]}),
        pa.record_batch({"value": [b"v"], "headers": pa.array([[{"key": None, "value": b""}]], HEADERS)}),
        pa.record_batch({"value": [b"v"], "timestamp": [-2]}),
        pa.record_batch({"value": [b"v", b"w"], "offset": [3, 3]}),
    ],
    ids=["no value", "unknown column", "header without key", "negative time", "equal offsets"],
)
def test_columns_that_make_no_batch_are_refused(rows: pa.RecordBatch) -> None:
    with pytest.raises(InvalidBatchError):
        list(build_batches(rows))


def test_null_offsets_are_refused() -> None:
    rows = pa.record_batch({"value": [b"v", b"w"], "offset": pa.array([3, None], pa.int64())})

    with pytest.raises(InvalidBatchError):
        list(build_batches(rows))


def test_offsets_ascend_from_chunk_to_chunk_of_a_table() -> None:
    chunks = [pa.table({"value": [b"v"], "offset": [offset]}) for offset in (5, 5)]

    with pytest.raises(InvalidBatchError, match="ascend"):
        list(build_batches(pa.concat_tables(chunks)))


def test_an_offset_too_far_away_begins_another_batch() -> None:
    far = 2**31 + 7

    built = list(build_batches(pa.table({"value": [b"a", b"b"], "offset": [7, far]})))

    assert [BatchHeader.unpack(batch).base_offset for batch in built] == [7, far]


def test_a_record_too_far_from_the_base_offset_is_refused() -> None:
    header = BatchHeader.unpack(build_batch([Record(0)]))

    with pytest.raises(InvalidBatchError, match="record 1 of 2"):
        encode_batch(header, [Record(0), Record(2**31)])


@pytest.mark.parametrize(
    "columns",
    [{"value": [1.5]}, {"value": [b"v"], "timestamp": ["noon"]}, {"value": [b"v"], "headers": ["h"]}],
    ids=["a number as value", "a word as time", "text as headers"],
)
def test_columns_of_other_types_are_refused_with_their_types(columns: dict[str, list[object]]) -> None:
    with pytest.raises(InvalidBatchError, match="records cannot be made of columns of these types"):
        list(build_batches(pa.table(columns)))
