"""Old message sets on their way into a log: a leader makes one v2 batch of them."""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest

from stratalog.config import LogConfig
from stratalog.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordValidationError,
)
from stratalog.log.append import analyze
from stratalog.log.origin import AppendOrigin
from stratalog.log.validation import ValidatedSet, validate_and_assign_offsets
from stratalog.records.batch import TimestampType
from stratalog.records.build import Record
from stratalog.records.compression import Codec
from stratalog.records.reader import RecordBatch, read_batches
from tests import naive
from tests.fixtures.catalog import Partition, partitions
from tests.records.golden import CLEANED_V0_RECORD, TWO_RECORDS, V0_MESSAGE, V1_MESSAGE

NOW = 1_700_000_000_000
HOUR = 3_600_000
GZIP_BIT, APPEND_TIME_BIT = 1, 8
ANY_TIME = LogConfig(message_timestamp_after_max_ms=2**63 - 1)
APPEND_TIME = LogConfig(message_timestamp_type="LogAppendTime")
OLD = [partition for partition in partitions("2.8.2", "clean") if partition.name.startswith(("v0-", "v1-"))]


def take(data: bytes, config: LogConfig = ANY_TIME, *, next_offset: int = 0, epoch: int = 0) -> ValidatedSet:
    info = analyze(
        data, origin=AppendOrigin.CLIENT, max_message_bytes=config.max_message_bytes, leader_epoch=epoch
    )
    return validate_and_assign_offsets(
        info,
        next_offset=next_offset,
        config=config,
        now_ms=NOW,
        leader_epoch=epoch,
        origin=AppendOrigin.CLIENT,
    )


def only_batch(taken: ValidatedSet) -> RecordBatch:
    (batch,) = read_batches(taken.data)
    return batch


def message(
    offset: int, timestamp: int, *, magic: int = 1, key: bytes | None = b"k", attributes: int = 0
) -> bytes:
    record = naive.Record(offset, timestamp, key, b"v%d" % offset)
    return naive.encode_message(record, magic=magic, attributes=attributes)


def wrapper(inner: bytes, *, magic: int = 1, offset: int = 1, timestamp: int = NOW) -> bytes:
    outer = naive.Record(offset, timestamp, None, gzip.compress(inner, mtime=0))
    return naive.encode_message(outer, magic=magic, attributes=GZIP_BIT)


def test_a_v0_message_becomes_the_batch_that_kafka_makes_of_it() -> None:
    v0 = naive.encode_message(naive.Record(0, -1, b"k0", b"b"), magic=0)

    taken = take(v0, next_offset=1, epoch=-1)

    assert taken.data.tobytes() == CLEANED_V0_RECORD
    assert (taken.is_rebuilt, taken.max_timestamp) == (True, -1)


@pytest.mark.parametrize(("old", "timestamp"), [(V0_MESSAGE, -1), (V1_MESSAGE, 283843)])
def test_kafkas_old_messages_keep_key_value_and_timestamp(old: bytes, timestamp: int) -> None:
    taken = take(old, next_offset=5, epoch=3)

    batch = only_batch(taken)
    assert list(batch) == [Record(5, timestamp, b"key1", b"value1")]
    assert (batch.facts.partition_leader_epoch, taken.max_timestamp) == (3, timestamp)
    assert (batch.facts.producer_id, batch.facts.base_sequence) == (-1, -1)


@pytest.mark.parametrize("partition", OLD, ids=str)
def test_a_brokers_old_messages_are_taken_record_by_record(partition: Partition) -> None:
    for log in partition.logs:
        data = log.read_bytes()
        for batch in partition.batches(log):
            one = data[batch["position"] : batch["position"] + batch["size"]]
            if batch["magic"] == 2 or batch["timestampType"] == "LogAppendTime":
                continue
            taken = take(one, next_offset=1000)
            assert [
                (record.offset, record.timestamp, record.key, record.value) for record in only_batch(taken)
            ] == [
                (1000 + index, record["timestamp"], _bytes(record["key"]), _bytes(record["value"]))
                for index, record in enumerate(batch["records"])
            ]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def test_many_plain_messages_become_one_batch() -> None:
    taken = take(message(7, NOW - 3) + message(3, NOW) + message(99, NOW - 1), next_offset=20)

    assert [(record.offset, record.value) for record in only_batch(taken)] == [
        (20, b"v7"),
        (21, b"v3"),
        (22, b"v99"),
    ]
    assert taken.max_timestamp == NOW


@pytest.mark.parametrize("target", ["producer", "uncompressed", "zstd"])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_compressed_set_is_unpacked_and_written_anew(magic: int, target: str) -> None:
    data = wrapper(message(0, NOW - 1, magic=magic) + message(1, NOW, magic=magic), magic=magic)

    taken = take(data, replace(ANY_TIME, compression_type=target), next_offset=8)

    batch = only_batch(taken)
    expected = {"producer": Codec.GZIP, "uncompressed": Codec.NONE, "zstd": Codec.ZSTD}[target]
    assert batch.codec is expected
    assert [record.offset for record in batch] == [8, 9]
    assert [record.timestamp for record in batch] == ([NOW - 1, NOW] if magic else [-1, -1])


def test_inner_offsets_that_do_not_count_up_are_set_right() -> None:
    data = wrapper(message(2, NOW) + message(0, NOW), offset=0)

    assert [(r.offset, r.value) for r in only_batch(take(data, next_offset=4))] == [(4, b"v2"), (5, b"v0")]


@pytest.mark.parametrize(
    "data", [V0_MESSAGE, V1_MESSAGE, wrapper(message(0, 5))], ids=["v0", "v1", "wrapper"]
)
def test_log_append_time_is_stamped_on_the_new_batch(data: bytes) -> None:
    taken = take(data, APPEND_TIME)

    assert (taken.max_timestamp, taken.log_append_time) == (NOW, NOW)
    assert only_batch(taken).timestamp_type is TimestampType.LOG_APPEND_TIME


@pytest.mark.parametrize(
    "data",
    [V0_MESSAGE + V1_MESSAGE, V1_MESSAGE + TWO_RECORDS, TWO_RECORDS + V1_MESSAGE],
    ids=["v0 and v1", "v1 and v2", "v2 and v1"],
)
def test_a_set_of_several_magics_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        take(data)


def test_two_compressed_sets_are_refused() -> None:
    with pytest.raises(InvalidRecordError, match="batch at a time"):
        take(wrapper(message(0, NOW)) * 2)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("timestamp", [NOW + HOUR + 1, NOW - 2 * HOUR])
def test_timestamps_must_be_within_the_topics_bounds(compressed: bool, timestamp: int) -> None:
    config = LogConfig(message_timestamp_before_max_ms=HOUR)
    data = message(0, NOW) + message(1, timestamp)

    with pytest.raises(InvalidTimestampError) as caught:
        take(wrapper(data) if compressed else data, config)
    # A plain message is a batch of its own, so it is the first record of that.
    assert [error.batch_index for error in caught.value.record_errors] == [1 if compressed else 0]


def test_of_plain_messages_the_first_refused_one_decides() -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}))

    with pytest.raises(RecordValidationError, match="without a key") as caught:
        take(message(0, NOW) + message(1, NOW, key=None) + message(2, 2 * NOW), config)
    assert len(caught.value.record_errors) == 1
    assert caught.value.position == len(message(0, NOW))


def test_no_producer_says_log_append_time() -> None:
    with pytest.raises(InvalidTimestampError, match="LogAppendTime"):
        take(message(0, NOW, attributes=APPEND_TIME_BIT), APPEND_TIME)


def test_a_wrong_crc_of_an_inner_message_is_corruption() -> None:
    inner = bytearray(message(0, NOW) + message(1, NOW))
    inner[-1] ^= 1

    with pytest.raises(CorruptRecordError, match="message 1 inside"):
        take(wrapper(bytes(inner)))


def test_inner_messages_of_another_magic_are_refused_by_number() -> None:
    inner = message(0, NOW) + message(1, NOW, magic=0)

    with pytest.raises(RecordValidationError, match="magic") as caught:
        take(wrapper(inner))
    assert [error.batch_index for error in caught.value.record_errors] == [1]


def test_a_compressed_message_inside_a_compressed_one_is_refused() -> None:
    inner = wrapper(message(0, NOW), offset=0)

    with pytest.raises(InvalidRecordError, match="compressed itself"):
        take(wrapper(inner, offset=0))
