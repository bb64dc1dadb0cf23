"""The header of a batch and what a broker changes in it, against batches that Kafka wrote."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import CorruptRecordError, InvalidBatchError, UnsupportedCompressionTypeError
from stratalog.records.batch import (
    BatchHeader,
    TimestampType,
    attributes_of,
    set_base_offset,
    set_last_offset,
    set_max_timestamp,
    set_partition_leader_epoch,
    write_crc,
)
from stratalog.records.compression import Codec
from tests import naive
from tests.records import golden
from tests.records.strategies import Encoded, v2_batches

GOLDEN = {
    "two records": golden.TWO_RECORDS,
    "marker": golden.COMMIT_MARKER,
    "empty": golden.EMPTY_BATCH,
    "tombstone": golden.TOMBSTONE,
    "cleaned tombstone": golden.CLEANED_V0_TOMBSTONE,
    "cleaned record": golden.CLEANED_V0_RECORD,
}


def test_the_fields_of_a_marker_are_read() -> None:
    header = BatchHeader.unpack(golden.COMMIT_MARKER)

    assert header == BatchHeader(
        base_offset=983,
        batch_length=66,
        partition_leader_epoch=29,
        magic=2,
        crc=0x172B6DC8,
        attributes=0x30,
        last_offset_delta=0,
        base_timestamp=1000,
        max_timestamp=1000,
        producer_id=73,
        producer_epoch=13,
        base_sequence=-1,
        records_count=1,
    )
    assert header.is_control
    assert header.is_transactional
    assert header.size == 78


def test_an_empty_batch_keeps_its_offsets_and_sequences() -> None:
    header = BatchHeader.unpack(golden.EMPTY_BATCH)

    assert (header.base_offset, header.last_offset, header.records_count) == (5, 7, 0)
    assert (header.base_sequence, header.last_sequence) == (4, 6)


def test_a_delete_horizon_stands_where_the_base_timestamp_was() -> None:
    header = BatchHeader.unpack(golden.TOMBSTONE)

    assert header.delete_horizon_ms == 86_401_000
    assert BatchHeader.unpack(golden.TWO_RECORDS).delete_horizon_ms is None


@pytest.mark.parametrize("batch", GOLDEN.values(), ids=GOLDEN)
def test_a_header_is_packed_as_it_was(batch: bytes) -> None:
    assert BatchHeader.unpack(b".." + batch, 2).pack() == batch[:61]


@pytest.mark.parametrize("batch", GOLDEN.values(), ids=GOLDEN)
def test_the_crc_of_kafka_comes_out(batch: bytes) -> None:
    changed = bytearray(b"." + batch + b".")
    changed[18:22] = bytes(4)

    write_crc(changed, 1, 1 + len(batch))

    assert changed == b"." + batch + b"."


@pytest.mark.parametrize(
    ("base_sequence", "last_offset_delta", "last_sequence"),
    [(-1, 5, -1), (0, 0, 0), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 2, 3, 1)],
)
def test_sequences_wrap_to_zero(base_sequence: int, last_offset_delta: int, last_sequence: int) -> None:
    header = BatchHeader.unpack(golden.TWO_RECORDS)._replace(
        base_sequence=base_sequence, last_offset_delta=last_offset_delta
    )

    assert header.last_sequence == last_sequence


@pytest.mark.parametrize("size", [0, 1, 60])
def test_too_few_bytes_for_a_header_are_corrupt(size: int) -> None:
    with pytest.raises(CorruptRecordError, match=f"{size} bytes are left") as caught:
        BatchHeader.unpack(bytes(10 + size), 10)

    assert caught.value.position == 10


def test_a_field_that_does_not_fit_is_refused() -> None:
    header = BatchHeader.unpack(golden.TWO_RECORDS)._replace(producer_epoch=2**15)

    with pytest.raises(InvalidBatchError, match="does not fit"):
        header.pack()


def test_the_codec_bits_that_mean_nothing_are_told() -> None:
    header = BatchHeader.unpack(golden.TWO_RECORDS)._replace(attributes=5)

    with pytest.raises(UnsupportedCompressionTypeError):
        _ = header.codec


def test_attributes_have_kafkas_bits() -> None:
    assert attributes_of(Codec.ZSTD) == 0x04
    assert attributes_of(Codec.NONE, TimestampType.LOG_APPEND_TIME) == 0x08
    assert attributes_of(Codec.NONE, is_transactional=True, is_control=True) == 0x30
    assert attributes_of(Codec.NONE, has_delete_horizon=True) == 0x40


def test_a_batch_without_a_timestamp_type_is_refused() -> None:
    with pytest.raises(InvalidBatchError):
        attributes_of(Codec.NONE, TimestampType.NO_TIMESTAMP_TYPE)


def test_setting_offsets_changes_the_first_eight_bytes_alone() -> None:
    batch = bytearray(b"." + golden.TWO_RECORDS)

    set_base_offset(batch, 100, 1)
    assert batch == b"." + (100).to_bytes(8, "big") + golden.TWO_RECORDS[8:]

    set_last_offset(batch, 201, 1)
    assert batch == b"." + (200).to_bytes(8, "big") + golden.TWO_RECORDS[8:]


def test_setting_the_leader_epoch_leaves_the_crc_alone() -> None:
    batch = bytearray(golden.TWO_RECORDS)

    set_partition_leader_epoch(batch, 29)

    assert batch == golden.TWO_RECORDS[:12] + (29).to_bytes(4, "big") + golden.TWO_RECORDS[16:]


# The two changed batches are what Kafka 4.3.1's setMaxTimestamp made of the same input.
@pytest.mark.parametrize(
    ("timestamp_type", "max_timestamp", "crc", "attributes"),
    [
        (TimestampType.LOG_APPEND_TIME, 1_700_000_000_000, "3e385e35", "0008"),
        (TimestampType.CREATE_TIME, 283_844, "ea8e9709", "0000"),
    ],
)
def test_setting_the_time_sets_the_crc(
    timestamp_type: TimestampType, max_timestamp: int, crc: str, attributes: str
) -> None:
    batch = bytearray(golden.TWO_RECORDS)

    set_max_timestamp(batch, timestamp_type, max_timestamp)

    assert batch[17:23].hex() == crc + attributes
    assert batch[35:43] == max_timestamp.to_bytes(8, "big")
    assert batch[:17] + batch[23:35] + batch[43:] == (
        golden.TWO_RECORDS[:17] + golden.TWO_RECORDS[23:35] + golden.TWO_RECORDS[43:]
    )


def test_setting_the_time_that_is_set_already_mends_no_crc() -> None:
    batch = bytearray(golden.TWO_RECORDS)
    batch[17] ^= 0xFF
    before = bytes(batch)

    set_max_timestamp(batch, TimestampType.CREATE_TIME, 283_843)

    assert batch == before


@given(
    v2_batches(),
    st.sampled_from([TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]),
    st.integers(0, 2**42),
)
def test_a_batch_whose_time_is_set_is_valid_and_otherwise_the_same(
    batch: Encoded, timestamp_type: TimestampType, time: int
) -> None:
    changed = bytearray(batch.data)

    set_max_timestamp(changed, timestamp_type, time)

    ((found,), _, _), ((before,), _, _) = naive.walk(bytes(changed)), naive.walk(batch.data)
    attributes = before.attributes & ~0x08 | (0x08 if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
    assert found == before._replace(attributes=attributes, max_timestamp=time, crc=found.crc, valid=True)


@pytest.mark.parametrize("size", [61, 96])
def test_a_batch_that_is_not_whole_gets_no_time_and_stays_as_it_was(size: int) -> None:
    batch = bytearray(golden.TWO_RECORDS[:size])

    with pytest.raises(CorruptRecordError):
        set_max_timestamp(batch, TimestampType.LOG_APPEND_TIME, 5)

    assert batch == golden.TWO_RECORDS[:size]


@pytest.mark.parametrize("setter", [set_base_offset, set_last_offset, set_partition_leader_epoch])
def test_a_buffer_too_short_for_a_header_is_refused(setter: Callable[..., None]) -> None:
    with pytest.raises(CorruptRecordError):
        setter(bytearray(60), 5)


@pytest.mark.parametrize(
    ("setter", "value"),
    [(set_base_offset, 2**63), (set_last_offset, 2**63 + 1), (set_partition_leader_epoch, 2**31)],
)
def test_a_value_that_does_not_fit_is_refused(setter: Callable[..., None], value: int) -> None:
    with pytest.raises(InvalidBatchError, match="does not fit"):
        setter(bytearray(golden.TWO_RECORDS), value)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_are_not_changed_in_place(magic: int) -> None:
    data = bytearray(100)
    data[16] = magic

    with pytest.raises(InvalidBatchError, match="only batches of magic 2"):
        set_base_offset(data, 1)
