"""Batches and records one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import (
    CorruptCompressionError,
    CorruptRecordError,
    InvalidRecordError,
    RecordTooLargeError,
    UnsupportedCompressionTypeError,
)
from stratalog.records.batch import TimestampType, write_crc
from stratalog.records.build import BatchOptions, Record, build_batch, encode_batch
from stratalog.records.compression import Codec
from stratalog.records.reader import read_batches
from tests import naive
from tests.records import golden
from tests.records.strategies import Encoded, as_naive, damaged, logs, plain, records

GOLDEN = {
    "two records": (golden.TWO_RECORDS, golden.TWO_RECORDS_INSIDE),
    "v0": (golden.V0_MESSAGE, [Record(0, -1, b"key1", b"value1")]),
    "v1": (golden.V1_MESSAGE, [Record(0, 283843, b"key1", b"value1")]),
    "marker": (golden.COMMIT_MARKER, golden.COMMIT_MARKER_INSIDE),
    "empty": (golden.EMPTY_BATCH, []),
    "tombstone": (golden.TOMBSTONE, golden.TOMBSTONE_INSIDE),
    "cleaned tombstone": (golden.CLEANED_V0_TOMBSTONE, golden.CLEANED_V0_TOMBSTONE_INSIDE),
    "cleaned record": (golden.CLEANED_V0_RECORD, golden.CLEANED_V0_RECORD_INSIDE),
}


def all_records(data: bytes | bytearray) -> list[Record]:
    return [record for batch in read_batches(data) for record in batch]


@pytest.mark.parametrize(("data", "inside"), GOLDEN.values(), ids=GOLDEN)
def test_golden_batches_hold_their_records(data: bytes, inside: list[Record]) -> None:
    assert all_records(data) == inside


@pytest.mark.parametrize("name", ["two records", "marker", "empty", "tombstone", "cleaned tombstone"])
def test_golden_batches_are_encoded_again_to_the_same_bytes(name: str) -> None:
    data, _ = GOLDEN[name]
    (batch,) = read_batches(data)

    assert encode_batch(batch.header, list(batch.records(stored_timestamps=True))) == data


@given(logs())
def test_logs_of_any_formats_and_codecs_are_read_whole(log: Encoded) -> None:
    assert all_records(log.data) == log.records


@given(logs())
def test_the_twin_reads_the_same(log: Encoded) -> None:
    assert [as_naive(record) for record in all_records(log.data)] == naive.decode(log.data, plain)


@given(logs(), st.data())
def test_damage_raises_our_errors_only_and_makes_no_records(log: Encoded, draw: st.DataObject) -> None:
    data = draw.draw(damaged(log.data))

    position, found = 0, []
    try:
        found = all_records(data)
    except CorruptRecordError as error:  # any other kind fails the test
        position = error.position

    assert 0 <= position <= len(data)
    # Offsets and the leader epoch of a batch are outside its checksum, and so is where a log ends.
    assert len(found) <= len(log.records)


@given(records(max_size=3), st.data())
def test_a_flipped_bit_under_the_crc_is_reported(made: list[Record], draw: st.DataObject) -> None:
    data = bytearray(build_batch(made))
    bit = draw.draw(st.integers(21 * 8, len(data) * 8 - 1))
    data[bit // 8] ^= 1 << bit % 8

    with pytest.raises(CorruptRecordError, match="CRC-32C is 0x"):
        all_records(data)


def test_iterating_a_batch_twice_gives_the_same_records_twice() -> None:
    (batch,) = read_batches(build_batch(golden.TWO_RECORDS_INSIDE, BatchOptions(codec=Codec.ZSTD)))

    assert list(batch) == list(batch) == golden.TWO_RECORDS_INSIDE


def test_a_batch_of_more_records_than_fit_one_round_is_read_whole() -> None:
    made = [Record(i, i, None, b"v") for i in range(1000)]

    assert all_records(build_batch(made)) == made


def test_a_batch_keeps_its_own_records_when_the_walk_has_gone_on() -> None:
    first, second = read_batches(golden.TWO_RECORDS + golden.TOMBSTONE)

    assert list(first) == golden.TWO_RECORDS_INSIDE
    assert list(second) == golden.TOMBSTONE_INSIDE


def test_more_batches_than_one_table_has_rows_are_read() -> None:
    assert sum(1 for _ in read_batches(golden.V0_MESSAGE * 200)) == 200


def test_the_time_of_the_append_hides_the_times_of_the_producer() -> None:
    (batch,) = read_batches(build_batch([Record(0, 5), Record(1, 6)], BatchOptions(log_append_time=99)))

    assert [record.timestamp for record in batch] == [99, 99]
    assert [record.timestamp for record in batch.records(stored_timestamps=True)] == [5, 6]


def test_a_batch_says_what_it_is() -> None:
    v0, v1, marker = read_batches(golden.V0_MESSAGE + golden.V1_MESSAGE + golden.COMMIT_MARKER)

    types = [batch.timestamp_type for batch in (v0, v1, marker)]
    assert types == [
        TimestampType.NO_TIMESTAMP_TYPE,
        TimestampType.CREATE_TIME,
        TimestampType.CREATE_TIME,
    ]
    assert [batch.is_control for batch in (v0, v1, marker)] == [False, False, True]
    assert [batch.is_transactional for batch in (v0, v1, marker)] == [False, False, True]
    assert [batch.codec for batch in (v0, v1, marker)] == [Codec.NONE] * 3
    assert bytes(marker.raw) == golden.COMMIT_MARKER
    assert marker.header.producer_id == marker.facts.producer_id == 73


def test_an_old_message_with_attribute_bits_of_newer_ones_is_no_control_batch() -> None:
    message = naive.encode_message(naive.Record(0, 5, None, b"v"), magic=1, attributes=0x30)

    (batch,) = read_batches(message)

    assert not batch.is_control
    assert not batch.is_transactional


def test_a_part_of_a_buffer_is_read_alone() -> None:
    data = b"\xff" * 5 + golden.TWO_RECORDS + b"\xff" * 90

    (batch,) = read_batches(data, start=5, end=5 + len(golden.TWO_RECORDS))

    assert batch.facts.position == 5
    assert list(batch) == golden.TWO_RECORDS_INSIDE


def test_a_torn_tail_is_where_reading_ends() -> None:
    data = golden.TWO_RECORDS + golden.TOMBSTONE[:-1]

    assert all_records(data) == golden.TWO_RECORDS_INSIDE


def test_a_corrupt_batch_is_told_after_those_before_it() -> None:
    data = bytearray(golden.TWO_RECORDS * 3)
    data[len(golden.TWO_RECORDS) + 90] ^= 0xFF
    batches = read_batches(data)

    assert list(next(batches)) == golden.TWO_RECORDS_INSIDE
    with pytest.raises(CorruptRecordError, match="its header says 0xe58cf1ff") as caught:
        next(batches)
    assert caught.value.position == len(golden.TWO_RECORDS)


def test_zeros_are_told_as_such() -> None:
    with pytest.raises(CorruptRecordError, match="zeros where a batch should start") as caught:
        all_records(golden.TWO_RECORDS + bytes(61))

    assert caught.value.position == len(golden.TWO_RECORDS)


def test_without_the_check_a_wrong_crc_is_no_matter() -> None:
    data = bytearray(golden.TWO_RECORDS)
    data[17] ^= 0xFF

    (batch,) = read_batches(data, check_crc=False)

    assert list(batch) == golden.TWO_RECORDS_INSIDE


def with_section(codec: Codec, section: bytes) -> bytearray:
    """A whole batch with a good checksum around any records section."""
    header = golden.TWO_RECORDS[:61]
    batch = bytearray(header[:8] + (49 + len(section)).to_bytes(4, "big") + header[12:] + section)
    batch[22] = codec
    write_crc(batch, 0, len(batch))
    return batch


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_stream_that_is_none_is_told_with_the_place_of_its_batch(codec: Codec) -> None:
    data = golden.TOMBSTONE + with_section(codec, b"no such stream, of any codec")

    with pytest.raises(CorruptCompressionError) as caught:
        all_records(data)

    assert caught.value.position == len(golden.TOMBSTONE)


def test_a_codec_without_a_meaning_is_told() -> None:
    with pytest.raises(UnsupportedCompressionTypeError):
        all_records(with_section(7, b"whatever"))  # type: ignore[arg-type]


def test_records_that_contradict_themselves_are_told_though_the_checksum_holds() -> None:
    section = golden.TWO_RECORDS[61:-1] + b"\x02"

    with pytest.raises(InvalidRecordError, match="offsets 0 to 1 ") as caught:
        all_records(golden.TOMBSTONE + with_section(Codec.NONE, section))

    assert caught.value.position == len(golden.TOMBSTONE)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_more_than_the_limit_is_refused(codec: Codec) -> None:
    data = build_batch([Record(0, 0, None, bytes(100_000))], BatchOptions(codec=codec))
    (batch,) = read_batches(data, limit=50_000)

    with pytest.raises(RecordTooLargeError):
        list(batch)


def test_a_header_key_that_is_no_utf8_is_read_with_replacements() -> None:
    inside = naive.Record(0, 0, None, b"v", ((b"\xc3(", b"x"),))

    (record,) = all_records(naive.encode_batch([inside]))

    assert record.headers == (("\ufffd(", b"x"),)


def test_a_header_key_that_is_an_encoded_surrogate_becomes_what_java_makes_of_it() -> None:
    inside = naive.Record(0, 0, None, b"v", ((b"\xed\xa0\x80", b"x"),))

    (record,) = all_records(naive.encode_batch([inside]))

    assert record.headers == (("\ufffd", b"x"),)


def test_nothing_holds_no_batches() -> None:
    assert list(read_batches(b"")) == []
