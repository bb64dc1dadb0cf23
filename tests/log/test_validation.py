"""What a leader makes of a set. Kafka's LogValidator on the same batches: tests/kafka/test_validation.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.config import LogConfig
from stratalog.errors import (
    InvalidBatchError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordTooLargeError,
    RecordValidationError,
    StratalogError,
)
from stratalog.log.append import analyze
from stratalog.log.origin import AppendOrigin
from stratalog.log.validation import ValidatedSet, validate_and_assign_offsets
from stratalog.records.batch import TimestampType, write_crc
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.records.reader import RecordBatch, read_batches
from tests import naive
from tests.records.changing import changed
from tests.records.golden import COMMIT_MARKER, TWO_RECORDS

NOW = 1_700_000_000_000
HOUR = 3_600_000
CLIENT, COORDINATOR = AppendOrigin.CLIENT, AppendOrigin.COORDINATOR
ANY_TIME = LogConfig(message_timestamp_after_max_ms=2**63 - 1)
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
APPEND_TIME = LogConfig(message_timestamp_type="LogAppendTime")
CODECS = [codec for codec in Codec if codec]


def take(
    data: bytes,
    config: LogConfig = ANY_TIME,
    *,
    origin: AppendOrigin = CLIENT,
    next_offset: int = 0,
    epoch: int = 0,
) -> ValidatedSet:
    info = analyze(data, origin=origin, max_message_bytes=config.max_message_bytes, leader_epoch=epoch)
    return validate_and_assign_offsets(
        info, next_offset=next_offset, config=config, now_ms=NOW, leader_epoch=epoch, origin=origin
    )


def only_batch(taken: ValidatedSet) -> RecordBatch:
    (batch,) = read_batches(taken.data)
    return batch


def records(*timestamps: int, key: bytes | None = b"k") -> list[Record]:
    return [Record(i, timestamp, key, b"value %d" % i) for i, timestamp in enumerate(timestamps)]


# Taken in place


def test_a_batch_gets_its_offset_and_epoch_and_keeps_all_other_bytes() -> None:
    taken = take(TWO_RECORDS, next_offset=1234567, epoch=29)

    expected = bytearray(TWO_RECORDS)
    expected[0:8] = (1234567).to_bytes(8, "big")
    expected[12:16] = (29).to_bytes(4, "big")
    assert taken.data.tobytes() == expected
    assert (taken.first_offset, taken.last_offset, taken.max_timestamp) == (1234567, 1234568, 283843)
    assert (taken.log_append_time, taken.is_rebuilt) == (-1, False)


def test_the_row_of_the_result_says_what_the_bytes_say() -> None:
    taken = take(TWO_RECORDS, APPEND_TIME, next_offset=7, epoch=3)

    assert taken.batches[0].item() == tuple(only_batch(taken).facts)


def test_the_callers_bytes_stay_as_they_are() -> None:
    data = bytearray(TWO_RECORDS)

    assert take(data, next_offset=5).last_offset == 6
    assert data == TWO_RECORDS
    assert take(data, next_offset=7).last_offset == 8


@pytest.mark.parametrize("codec", list(Codec))
def test_any_codec_is_kept_as_it_came(codec: Codec) -> None:
    data = build_batch(records(NOW - 2, NOW, NOW - 1), BatchOptions(codec=codec))

    taken = take(data, next_offset=10)

    assert taken.data.tobytes()[61:] == data[61:]
    assert [record.offset for record in only_batch(taken)] == [10, 11, 12]
    assert taken.max_timestamp == NOW


def test_a_wrong_largest_timestamp_is_put_right() -> None:
    lying = changed(TWO_RECORDS, max_timestamp=99)

    assert take(lying).data.tobytes() == TWO_RECORDS[:12] + bytes(4) + TWO_RECORDS[16:]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_log_append_time_is_stamped_and_the_records_keep_theirs(codec: Codec) -> None:
    data = build_batch(records(NOW - 2, NOW - 1), BatchOptions(codec=codec))

    taken = take(data, APPEND_TIME)

    batch = only_batch(taken)
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in batch} == {NOW}
    assert [r.timestamp for r in batch.records(stored_timestamps=True)] == [NOW - 2, NOW - 1]
    assert (taken.max_timestamp, taken.log_append_time, taken.is_rebuilt) == (NOW, NOW, False)


def test_log_append_time_takes_timestamps_of_any_age() -> None:
    config = replace(APPEND_TIME, message_timestamp_before_max_ms=0, message_timestamp_after_max_ms=0)

    assert take(build_batch(records(1, 2 * NOW)), config).max_timestamp == NOW


def test_a_marker_is_never_compressed() -> None:
    config = replace(ANY_TIME, compression_type="gzip")

    taken = take(COMMIT_MARKER, config, origin=COORDINATOR, next_offset=983, epoch=29)

    assert taken.data.tobytes() == COMMIT_MARKER
    assert not taken.is_rebuilt


def test_a_codec_of_another_level_is_no_reason_to_compress_anew() -> None:
    data = build_batch(records(NOW), BatchOptions(codec=Codec.GZIP, level=1))

    assert not take(data, replace(ANY_TIME, compression_type="gzip", compression_gzip_level=9)).is_rebuilt


def test_a_coordinators_batch_may_have_more_offsets_than_records() -> None:
    data = changed(TWO_RECORDS, last_offset_delta=4)

    taken = take(data, origin=COORDINATOR, next_offset=10)

    assert (taken.first_offset, taken.last_offset) == (
        7,
        11,
    )  # Kafka sets the last offset, and counts records


# Written anew


@pytest.mark.parametrize("codec", CODECS)
def test_another_codec_of_the_topic_makes_a_new_batch(codec: Codec) -> None:
    source = [Record(0, NOW - 5, None, b"v", (("h", None), ("ü", b"x"))), Record(1, NOW, b"k", None)]
    options = BatchOptions(producer_id=9, producer_epoch=2, base_sequence=7, is_transactional=True)
    config = replace(ANY_TIME, compression_type=codec.kafka_name)

    taken = take(build_batch(source, options), config, next_offset=40, epoch=6)

    batch = only_batch(taken)
    assert taken.is_rebuilt
    assert (batch.codec, batch.is_transactional, batch.facts.partition_leader_epoch) == (codec, True, 6)
    assert (batch.facts.producer_id, batch.facts.producer_epoch, batch.facts.base_sequence) == (9, 2, 7)
    assert (batch.facts.base_timestamp, taken.max_timestamp) == (NOW - 5, NOW)
    assert list(batch) == [record._replace(offset=40 + record.offset) for record in source]


@pytest.mark.parametrize("codec", CODECS)
def test_uncompressed_as_the_topic_wants_it_is_kafkas_plain_batch(codec: Codec) -> None:
    source = build_batch(
        [Record(0, 283843, b"key1", b"value1"), Record(1, 1234, b"key2", b"value2")],
        BatchOptions(codec=codec),
    )

    taken = take(source, replace(ANY_TIME, compression_type="uncompressed"), epoch=-1)

    assert taken.data.tobytes() == TWO_RECORDS


def test_a_new_batch_is_stamped_with_log_append_time() -> None:
    taken = take(TWO_RECORDS, replace(APPEND_TIME, compression_type="lz4"))

    batch = only_batch(taken)
    assert (taken.max_timestamp, batch.timestamp_type) == (NOW, TimestampType.LOG_APPEND_TIME)
    assert [r.timestamp for r in batch.records(stored_timestamps=True)] == [283843, 1234]


def test_offsets_inside_that_do_not_count_up_are_set_right_where_the_batch_is_new() -> None:
    gap = changed(build_batch([Record(0, NOW, b"a"), Record(5, NOW, b"b")]), last_offset_delta=1)

    taken = take(gap, replace(ANY_TIME, compression_type="gzip"), next_offset=3)

    assert [record.offset for record in only_batch(taken)] == [3, 4]


def test_a_batch_that_grew_past_the_limit_is_refused() -> None:
    data = build_batch([Record(0, NOW, b"k", bytes(5000))], BatchOptions(codec=Codec.ZSTD))
    config = replace(ANY_TIME, compression_type="uncompressed", max_message_bytes=4000)

    with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes of this topic is 4000"):
        take(data, config)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"base_timestamp": -5}, "negative"),
        ({"attributes": 0x10}, "transactional batch needs a producer id"),
    ],
)
def test_what_cannot_stand_in_a_new_batch_is_refused(fields: dict[str, int], reason: str) -> None:
    data = changed(TWO_RECORDS, **fields)
    config = replace(ANY_TIME, compression_type="gzip")
    if "attributes" not in fields:
        config = replace(config, message_timestamp_type="LogAppendTime")

    with pytest.raises(InvalidBatchError, match=reason):
        take(data, config)


# Refused


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("target", ["producer", "lz4"])
def test_a_leader_takes_one_batch_at_a_time(codec: Codec, target: str) -> None:
    data = build_batch(records(NOW), BatchOptions(codec=codec))

    with pytest.raises(InvalidRecordError, match="batch at a time"):
        take(data * 2, replace(ANY_TIME, compression_type=target))


def test_a_set_without_a_batch_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match="no batch"):
        take(b"")


@pytest.mark.parametrize(
    ("delta", "count"), [(0, 3), (15, 3), (-3, 3), (1, 0), (-1, 0), (1, -1), (2, 2), (0, 2)]
)
def test_the_count_of_a_clients_batch_must_be_that_of_its_offsets(delta: int, count: int) -> None:
    with pytest.raises(InvalidRecordError, match="offsets for"):
        take(changed(TWO_RECORDS, last_offset_delta=delta, records_count=count))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
@pytest.mark.parametrize("target", ["producer", "zstd"])
def test_a_count_that_is_not_that_of_the_records_is_refused(count: int, codec: Codec, target: str) -> None:
    data = changed(
        build_batch(records(NOW, NOW), BatchOptions(codec=codec)),
        records_count=count,
        last_offset_delta=count - 1,
    )

    with pytest.raises(InvalidRecordError):
        take(data, replace(ANY_TIME, compression_type=target))


def test_a_client_writes_no_control_batch() -> None:
    with pytest.raises(InvalidRecordError, match="control batch"):
        take(changed(COMMIT_MARKER, base_offset=0))


def test_a_compressed_control_batch_keeps_its_codec_or_is_refused() -> None:
    control = changed(build_batch(records(NOW), BatchOptions(codec=Codec.GZIP)), attributes=0x21)

    assert not take(control, origin=COORDINATOR).is_rebuilt
    with pytest.raises(InvalidRecordError, match="compressed control batch"):
        take(control, replace(ANY_TIME, compression_type="zstd"), origin=COORDINATOR)


def test_an_idempotent_batch_of_a_client_needs_a_sequence() -> None:
    data = changed(TWO_RECORDS, producer_id=1324, producer_epoch=10)

    with pytest.raises(InvalidRecordError, match="base sequence -1"):
        take(data)
    assert take(data, origin=COORDINATOR).last_offset == 1


def test_inner_offsets_of_a_compressed_batch_must_count_up() -> None:
    batch = build_batch([Record(0, NOW), Record(5, NOW)], BatchOptions(codec=Codec.GZIP))

    with pytest.raises(InvalidRecordError, match="0, 1, 2"):
        take(changed(batch, last_offset_delta=1))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("target", ["producer", "gzip"])
def test_a_compacted_topic_takes_no_record_without_a_key(codec: Codec, target: str) -> None:
    source = [Record(0, NOW, b"k"), Record(1, NOW), Record(2, NOW, b""), Record(3, NOW)]
    data = build_batch(source, BatchOptions(codec=codec))

    with pytest.raises(RecordValidationError, match="without a key") as caught:
        take(data, replace(COMPACTED, compression_type=target))

    assert [error.batch_index for error in caught.value.record_errors] == [1, 3]
    assert take(data).last_offset == 3


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("target", ["producer", "snappy"])
@pytest.mark.parametrize(
    ("timestamp", "is_taken"),
    [
        (NOW - HOUR, True),
        (NOW - HOUR - 1, False),
        (NOW + 1000, True),
        (NOW + 1001, False),
        (-1, True),
        (2**62, False),
    ],
)
def test_timestamps_must_be_within_the_topics_bounds(
    codec: Codec, target: str, timestamp: int, is_taken: bool
) -> None:
    config = LogConfig(
        message_timestamp_before_max_ms=HOUR,
        message_timestamp_after_max_ms=1000,
        compression_type=target,
    )
    data = build_batch(records(timestamp, NOW), BatchOptions(codec=codec))

    if is_taken:
        assert take(data, config).max_timestamp == max(timestamp, NOW)
    else:
        with pytest.raises(InvalidTimestampError, match=f"timestamp {timestamp} is not within") as caught:
            take(data, config)
        assert [error.batch_index for error in caught.value.record_errors] == [0]


def test_by_default_an_hour_ahead_is_the_limit() -> None:
    assert take(build_batch(records(NOW + HOUR)), LogConfig()).max_timestamp == NOW + HOUR
    with pytest.raises(InvalidTimestampError):
        take(build_batch(records(NOW + HOUR + 1)), LogConfig())


def test_an_error_about_a_timestamp_wins_over_one_about_a_key() -> None:
    data = build_batch([Record(0, NOW), Record(1, NOW + 2 * HOUR, b"k"), Record(2, NOW + 2 * HOUR)])

    with pytest.raises(InvalidTimestampError) as caught:
        take(data, COMPACTED)

    reasons = {error.batch_index: error.reason for error in caught.value.record_errors}
    assert sorted(reasons) == [0, 1, 2]
    assert "key" in reasons[0]
    assert "key" in reasons[2]  # a record without a key is refused for that, whatever its timestamp


def test_no_producer_says_log_append_time() -> None:
    claims = changed(build_batch(records(NOW)), attributes=0x08)
    untimed = changed(build_batch(records(-1)), attributes=0x08)

    for data, config in ((claims, APPEND_TIME), (untimed, ANY_TIME)):
        with pytest.raises(InvalidTimestampError, match="LogAppendTime"):
            take(data, config)
    # Kafka's rule looks at the time alone where there is one, and clears the bit.
    assert only_batch(take(claims)).timestamp_type is TimestampType.CREATE_TIME


def test_a_batch_that_contradicts_itself_is_refused() -> None:
    damaged = bytearray(TWO_RECORDS)
    damaged[61] = 0x7E
    write_crc(damaged, 0, len(damaged))

    with pytest.raises(InvalidRecordError):
        take(bytes(damaged))


@given(
    st.lists(
        st.tuples(st.integers(NOW - 20, NOW + 20) | st.just(-1), st.none() | st.binary(max_size=3)),
        min_size=1,
        max_size=600,  # more than the kernel has rows at a time
    ),
    st.integers(0, 15),
    st.integers(0, 15),
    st.booleans(),
)
def test_records_are_judged_as_by_the_slow_twin(
    shapes: list[tuple[int, bytes | None]], before: int, after: int, compacted: bool
) -> None:
    data = build_batch([Record(i, timestamp, key) for i, (timestamp, key) in enumerate(shapes)])
    refused = [
        index
        for index, record in enumerate(naive_records(data))
        if (compacted and record.key is None)
        or (record.timestamp != -1 and not NOW - before <= record.timestamp <= NOW + after)
    ]
    config = LogConfig(
        message_timestamp_before_max_ms=before,
        message_timestamp_after_max_ms=after,
        cleanup_policy=frozenset({"compact" if compacted else "delete"}),
    )

    if refused:
        with pytest.raises((InvalidTimestampError, RecordValidationError)) as caught:
            take(data, config)
        assert [error.batch_index for error in caught.value.record_errors] == refused
    else:
        taken = take(data, config)
        assert taken.max_timestamp == max(timestamp for timestamp, _ in shapes)
        assert naive.walk(taken.data.tobytes())[0][0].valid


def naive_records(data: bytes) -> list[naive.Record]:
    (batch,) = naive.walk(data)[0]
    return list(naive.decode_v2(batch, data[61:]))


@given(st.data(), st.sampled_from(Codec), st.sampled_from(["producer", "uncompressed", "zstd"]))
def test_damage_behind_a_good_crc_is_taken_or_refused_with_our_errors(
    data: st.DataObject, codec: Codec, target: str
) -> None:
    batch = bytearray(build_batch(records(NOW - 1, NOW, -1), BatchOptions(codec=codec)))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(21, len(batch) - 1))] = data.draw(st.integers(0, 255))
    write_crc(batch, 0, len(batch))
    origin = data.draw(st.sampled_from([CLIENT, COORDINATOR]))

    try:
        taken = take(bytes(batch), replace(ANY_TIME, compression_type=target), origin=origin)
    except StratalogError:
        return
    assert naive.walk(taken.data.tobytes())[0][0].valid
