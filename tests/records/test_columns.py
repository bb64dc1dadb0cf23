"""Batches to Arrow columns: the requested ones, in bounded pieces, as far as the bytes are good."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stratalog.errors import (
    CorruptCompressionError,
    CorruptRecordError,
    InvalidRecordError,
    RecordTooLargeError,
    UsageError,
)
from stratalog.records.batch import write_crc
from stratalog.records.build import BatchOptions, Record, build_batch, build_batches
from stratalog.records.columns import (
    ALL_COLUMNS,
    KAFKA_COLUMNS,
    ColumnMemory,
    ColumnReader,
    arrow_schema,
    read_columns,
)
from stratalog.records.compression import Codec
from stratalog.records.kernels.decode import RecordTable
from stratalog.records.kernels.memory import Bytes
from stratalog.records.walk import WalkStop
from tests.records import golden
from tests.records.strategies import Encoded, damaged, logs

LARGEST_MS = (2**63 - 1) // 1000
RECORD_COLUMNS = ("offset", "timestamp", "key", "value", "headers")


def records_of(parts: Iterable[pa.RecordBatch]) -> list[Record]:
    """The rows as records; milliseconds beyond what microseconds hold have stopped at the edge."""
    found = []
    for part in parts:
        part.validate(full=True)
        times = part.column("timestamp").cast(pa.int64()).to_pylist()
        for row, time in zip(part.drop_columns(["timestamp"]).to_pylist(), times, strict=True):
            headers = tuple((pair["key"], pair["value"]) for pair in row["headers"] or [])
            found.append(Record(row["offset"], time // 1000, row["key"], row["value"], headers))
    return found


def edged(records: Iterable[Record]) -> list[Record]:
    return [record._replace(timestamp=min(record.timestamp, LARGEST_MS)) for record in records]


def offsets_of(parts: Iterable[pa.RecordBatch]) -> list[int]:
    return [offset for part in parts for offset in part.column("offset").to_pylist()]


def collect(parts: Iterable[pa.RecordBatch], found: list[int]) -> None:
    """Add the offsets as they come, so that they are there when the next part raises."""
    for part in parts:
        found += part.column("offset").to_pylist()


def batch_of(offsets: Iterable[int], codec: Codec = Codec.NONE, size: int = 10) -> bytes:
    return build_batch([Record(i, 5, None, b"v" * size) for i in offsets], BatchOptions(codec=codec))


def test_the_columns_are_those_of_sparks_kafka_source() -> None:
    schema = arrow_schema((*KAFKA_COLUMNS, "headers"))

    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    assert schema == pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("timestampType", pa.int32()),
            ("headers", headers),
        ]
    )


def test_an_unknown_column_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"unknown columns colour; the columns are key, value, topic"):
        ColumnReader(columns=["key", "colour"])


def test_no_columns_at_all_are_refused() -> None:
    with pytest.raises(UsageError):
        ColumnReader(columns=[])


@pytest.mark.parametrize(
    "bounds", [{"max_rows": 0}, {"max_rows": 2**31}, {"max_bytes": 0}, {"max_bytes": 2**30}]
)
def test_bounds_that_no_batch_can_keep_are_refused(bounds: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        ColumnReader(**bounds)


@given(logs())
def test_logs_of_any_formats_and_codecs_are_read_whole(log: Encoded) -> None:
    parts = list(read_columns(log.data, columns=RECORD_COLUMNS))

    assert records_of(parts) == edged(log.records)


@given(logs(), st.integers(1, 3), st.integers(1, 300))
def test_small_pieces_hold_the_same(log: Encoded, max_rows: int, max_bytes: int) -> None:
    parts = list(read_columns(log.data, columns=RECORD_COLUMNS, max_rows=max_rows, max_bytes=max_bytes))

    assert records_of(parts) == edged(log.records)
    assert all(0 < part.num_rows <= max_rows for part in parts)


@given(logs(), st.data())
def test_a_range_of_offsets_is_cut_out_exactly(log: Encoded, draw: st.DataObject) -> None:
    edges = st.sampled_from(log.records).map(lambda record: record.offset)
    start, end = draw.draw(edges), draw.draw(edges.map(lambda offset: offset + 1))

    parts = read_columns(log.data, columns=["offset"], start_offset=start, end_offset=end)

    assert offsets_of(parts) == [record.offset for record in log.records if start <= record.offset < end]


@given(logs(), st.data())
def test_damage_raises_our_errors_only_and_makes_no_rows(log: Encoded, draw: st.DataObject) -> None:
    data = draw.draw(damaged(log.data))
    reader, rows, position = ColumnReader(columns=ALL_COLUMNS, include_control=True), 0, 0
    try:
        for part in reader.read(data):
            part.validate(full=True)
            rows += part.num_rows
    except CorruptRecordError as error:  # any other kind fails the test
        position = error.position

    assert 0 <= position <= len(data)
    assert rows <= len(log.records)


def test_the_order_asked_for_is_the_order_given() -> None:
    (part,) = read_columns(golden.TWO_RECORDS, columns=["value", "offset", "key"])

    assert part.schema == arrow_schema(["value", "offset", "key"])
    assert part.to_pydict() == {"value": [b"value1", b"value2"], "offset": [0, 1], "key": [b"key1", b"key2"]}


def test_values_that_are_not_asked_for_are_not_copied() -> None:
    data = batch_of(range(4), size=1 << 20)
    before = pa.total_allocated_bytes()

    parts = list(read_columns(data, columns=["offset", "timestamp"]))
    grown = pa.total_allocated_bytes() - before

    assert offsets_of(parts) == [0, 1, 2, 3]
    assert grown < 1 << 16


def test_control_records_come_only_when_asked_for() -> None:
    data = golden.TWO_RECORDS + golden.COMMIT_MARKER + batch_of([984])

    assert offsets_of(read_columns(data, columns=["offset"])) == [0, 1, 984]
    assert offsets_of(read_columns(data, columns=["offset"], include_control=True)) == [0, 1, 983, 984]


def test_a_kafka_batch_is_split_over_several_arrow_batches() -> None:
    parts = list(read_columns(batch_of(range(10), Codec.GZIP), columns=["offset"], max_rows=4))

    assert [part.num_rows for part in parts] == [4, 4, 2]
    assert offsets_of(parts) == list(range(10))


def test_no_small_arrow_batch_is_left_at_the_end_of_a_run() -> None:
    parts = list(read_columns(batch_of(range(9)), columns=["offset"], max_rows=8))

    assert [part.num_rows for part in parts] == [5, 4]


def test_an_arrow_batch_ends_before_the_record_that_would_bring_it_over_its_bytes() -> None:
    parts = list(read_columns(batch_of(range(9), size=1000), columns=["value"], max_bytes=2500))

    assert [part.num_rows for part in parts] == [2, 2, 2, 2, 1]


def test_a_record_above_the_bytes_comes_alone() -> None:
    parts = list(read_columns(batch_of(range(3), size=100_000), columns=["value"], max_bytes=10))

    assert [part.num_rows for part in parts] == [1, 1, 1]


def test_codecs_may_change_from_batch_to_batch() -> None:
    data = b"".join(batch_of(range(3 * codec, 3 * codec + 3), codec) for codec in Codec)

    parts = list(read_columns(data, columns=["offset", "codec"]))

    assert offsets_of(parts) == list(range(15))
    names = [name for part in parts for name in part.column("codec").to_pylist()]
    assert names == [codec.kafka_name for codec in Codec for _ in range(3)]


def test_what_was_yielded_stays_when_the_reader_goes_on() -> None:
    reader = ColumnReader(columns=["key", "value", "offset"])
    data = b"".join(batch_of([i], codec, size=50) for i, codec in enumerate(Codec))

    (first,) = reader.read(golden.TWO_RECORDS)
    list(reader.read(data))

    assert first.to_pydict() == {"key": [b"key1", b"key2"], "value": [b"value1", b"value2"], "offset": [0, 1]}


@pytest.mark.parametrize("codec", Codec)
def test_a_corrupt_batch_is_told_after_everything_before_it(codec: Codec) -> None:
    good, bad = batch_of(range(5), codec), bytearray(batch_of(range(5, 10), codec))
    bad[70] ^= 1
    found: list[int] = []

    with pytest.raises(CorruptRecordError, match="CRC-32C") as caught:
        collect(read_columns(good + bad + good, columns=["offset"], max_rows=2), found)

    assert found == list(range(5))
    assert caught.value.position == len(good)


def test_a_corrupt_batch_outside_the_wanted_offsets_is_told_all_the_same() -> None:
    bad = bytearray(batch_of(range(5)))
    bad[70] ^= 1

    with pytest.raises(CorruptRecordError):
        offsets_of(read_columns(bad + batch_of(range(5, 9)), columns=["offset"], start_offset=5))


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_stream_that_is_none_is_told_after_everything_before_it(codec: Codec) -> None:
    good, bad = batch_of(range(5), codec), bytearray(batch_of(range(5, 10)))
    bad[22] = codec
    write_crc(bad, 0, len(bad))
    found: list[int] = []

    with pytest.raises(CorruptCompressionError) as caught:
        collect(read_columns(good + bad, columns=["offset"]), found)

    assert found == list(range(5))
    assert caught.value.position == len(good)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_an_invalid_record_is_told_with_the_place_of_its_batch(codec: Codec) -> None:
    good, bad = batch_of(range(5), codec), bytearray(batch_of(range(5, 10), codec))
    bad[60] = 6  # counts one record more than there are
    write_crc(bad, 0, len(bad))
    found: list[int] = []

    with pytest.raises(InvalidRecordError) as caught:
        collect(read_columns(good + bad + good, columns=["offset"]), found)

    assert found == list(range(10))  # the records themselves are good
    assert caught.value.position == len(good)


def test_a_torn_tail_ends_the_reading_and_says_where() -> None:
    data = golden.TWO_RECORDS + golden.TOMBSTONE[:-1]
    reader = ColumnReader(columns=["offset"])

    assert offsets_of(reader.read(data)) == [0, 1]
    assert (reader.stop, reader.next_position) == (WalkStop.TORN_TAIL, len(golden.TWO_RECORDS))


def test_reading_goes_on_where_the_last_buffer_was_torn() -> None:
    data, cut = golden.TWO_RECORDS + golden.TOMBSTONE, len(golden.TWO_RECORDS) + 30
    reader = ColumnReader(columns=["offset"])

    first = offsets_of(reader.read(data, end=cut))
    second = offsets_of(reader.read(data, start=reader.next_position))

    assert (first, second) == ([0, 1], [10])
    assert (reader.stop, reader.next_position) == (WalkStop.END, len(data))


def test_zeros_are_corrupt_and_told_after_everything_before_them() -> None:
    reader = ColumnReader(columns=["offset"])
    found: list[int] = []

    with pytest.raises(CorruptRecordError, match="zeros") as caught:
        collect(reader.read(golden.TWO_RECORDS + bytes(100)), found)

    assert (found, caught.value.position) == ([0, 1], len(golden.TWO_RECORDS))


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_batch_that_unpacks_to_more_than_the_limit_is_refused(codec: Codec) -> None:
    data = batch_of(range(2), codec, size=100_000)

    with pytest.raises(RecordTooLargeError):
        list(read_columns(data, columns=["offset"], limit=100_000))


def test_nothing_gives_no_arrow_batches() -> None:
    reader = ColumnReader()

    assert list(reader.read(b"")) == []
    assert (reader.stop, reader.next_position) == (WalkStop.END, 0)


def test_an_empty_batch_gives_no_rows() -> None:
    assert list(read_columns(golden.EMPTY_BATCH)) == []


def test_more_batches_than_one_walk_takes_are_all_read() -> None:
    data = b"".join(batch_of([i]) for i in range(3000))

    assert offsets_of(read_columns(data, columns=["offset"])) == list(range(3000))


def test_more_bytes_than_one_run_takes_are_all_read() -> None:
    data = b"".join(batch_of(range(10 * i, 10 * i + 10), Codec.LZ4, size=60_000) for i in range(6))

    assert offsets_of(read_columns(data, columns=["offset"])) == list(range(60))


@given(logs())
def test_arrow_becomes_batches_and_arrow_again(log: Encoded) -> None:
    table = pa.Table.from_batches(
        list(read_columns(log.data, columns=RECORD_COLUMNS)), schema=arrow_schema(RECORD_COLUMNS)
    )

    written = b"".join(build_batches(table, BatchOptions(codec=Codec.LZ4), batch_size=300))
    again = pa.Table.from_batches(list(read_columns(written, columns=RECORD_COLUMNS)))

    assert again.combine_chunks().equals(table.combine_chunks())


def test_a_reader_without_the_check_reads_a_batch_with_a_wrong_crc() -> None:
    data = bytearray(golden.TWO_RECORDS)
    data[17] ^= 0xFF

    assert offsets_of(read_columns(data, columns=["offset"], check_crc=False)) == [0, 1]


def test_a_reader_that_is_begun_again_refuses_to_go_on_with_what_it_left() -> None:
    reader = ColumnReader(columns=["offset"], max_rows=2)
    first = reader.read(batch_of(range(10)))
    next(first)
    next(reader.read(batch_of(range(3))))

    with pytest.raises(UsageError, match="another read"):
        next(first)


@given(logs(), st.integers(1, 5))
def test_only_the_rows_that_are_picked_are_there(log: Encoded, every: int) -> None:
    def pick(data: Bytes, rows: RecordTable) -> NDArray[np.bool_] | None:
        assert len(data)
        picked: NDArray[np.bool_] = rows["offset"] % every == 0
        return None if picked.all() else picked

    parts = list(read_columns(log.data, columns=RECORD_COLUMNS, pick=pick))

    assert records_of(parts) == edged([each for each in log.records if each.offset % every == 0])
    assert all(part.num_rows for part in parts)


@given(logs(), logs())
def test_a_reader_in_the_memory_of_another_reads_the_same(first: Encoded, second: Encoded) -> None:
    memory = ColumnMemory()
    for log, topic, rows in ((first, "one", 3), (second, "two", 100), (first, "one", 7)):
        shared = ColumnReader(columns=ALL_COLUMNS, topic=topic, partition=rows, max_rows=rows, memory=memory)
        alone = ColumnReader(columns=ALL_COLUMNS, topic=topic, partition=rows, max_rows=rows)

        assert list(shared.read(log.data)) == list(alone.read(log.data))
        assert all(set(part.column("topic").to_pylist()) == {topic} for part in shared.read(log.data))


@given(logs())
def test_columns_that_are_copied_together_are_those_that_are_copied_alone(log: Encoded) -> None:
    columns = ("key", "value", "offset", "timestamp")

    together = pa.Table.from_batches(read_columns(log.data, columns=columns), arrow_schema(columns))

    for name in columns:
        alone = pa.Table.from_batches(read_columns(log.data, columns=[name]), arrow_schema([name]))
        assert together.column(name).equals(alone.column(name))
