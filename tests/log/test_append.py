"""The first checks of a set: what is appended, and what refuses the whole set."""

from __future__ import annotations

import logging
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    OffsetsOutOfOrderError,
    OutOfOrderSequenceError,
    RecordError,
    RecordTooLargeError,
    RecordValidationError,
    StratalogError,
    UnsupportedCompressionTypeError,
)
from stratalog.log.append import AppendInfo, analyze
from stratalog.log.origin import AppendOrigin
from stratalog.records.batch import (
    BatchHeader,
    set_base_offset,
    set_partition_leader_epoch,
    write_crc,
)
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from tests import naive
from tests.fixtures.catalog import Partition, partitions
from tests.records.golden import TWO_RECORDS, V0_MESSAGE, V1_MESSAGE

CLIENT, REPLICATION, RAFT = AppendOrigin.CLIENT, AppendOrigin.REPLICATION, AppendOrigin.RAFT_LEADER


def look(
    data: bytes | bytearray, origin: AppendOrigin = REPLICATION, *, limit: int | None = None, epoch: int = 99
) -> AppendInfo:
    return analyze(data, origin=origin, max_message_bytes=limit, leader_epoch=epoch)


def batch_at(offset: int, *, epoch: int = 0, timestamp: int = 1000, codec: Codec = Codec.NONE) -> bytes:
    built = bytearray(
        build_batch([Record(0, timestamp, b"k", b"v"), Record(1, timestamp)], BatchOptions(codec=codec))
    )
    set_base_offset(built, offset)
    set_partition_leader_epoch(built, epoch)
    return bytes(built)


def test_kafkas_batch_is_described() -> None:
    info = look(TWO_RECORDS, CLIENT)

    assert (info.first_offset, info.last_offset, info.records_count) == (0, 1, 2)
    assert (info.size, info.max_timestamp, info.source_codec) == (len(TWO_RECORDS), 283843, Codec.NONE)
    assert (info.last_leader_epoch, info.first_known_offset, len(info.batches)) == (-1, 0, 1)


@pytest.mark.parametrize("message", [V0_MESSAGE, V1_MESSAGE])
def test_the_first_offset_of_an_old_message_is_unknown(message: bytes) -> None:
    info = look(message)

    assert (info.first_offset, info.last_offset, info.first_known_offset, info.records_count) == (-1, 0, 0, 0)


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_a_brokers_segment_is_a_set_that_a_follower_takes(partition: Partition) -> None:
    for log in partition.logs:
        info = look(log.read_bytes(), epoch=2**31 - 1)
        batches = list(partition.batches(log))

        assert info.size == sum(batch["size"] for batch in batches)
        assert len(info.batches) == len(batches)
        if batches:
            assert info.last_offset == batches[-1]["lastOffset"]
            assert info.max_timestamp == max(batch["maxTimestamp"] for batch in batches)
            assert info.last_leader_epoch == batches[-1]["partitionLeaderEpoch"]


def test_the_codec_is_that_of_the_last_compressed_batch() -> None:
    data = batch_at(0, codec=Codec.GZIP) + batch_at(2, codec=Codec.ZSTD) + batch_at(4)

    assert look(data).source_codec is Codec.ZSTD


def test_more_batches_than_the_first_one_lets_expect_are_all_found() -> None:
    data = bytearray(build_batch([Record(0, 0, b"k", bytes(100_000))]))
    small = b"".join(batch_at(offset) for offset in range(1, 3001, 2))

    assert len(look(data + small).batches) == 1501


def test_more_batches_than_one_table_holds_are_all_found() -> None:
    data = b"".join(batch_at(offset) for offset in range(0, 20_000, 2))
    larger_first = bytearray(build_batch([Record(0, 0, b"k", bytes(len(data)))]))
    set_base_offset(larger_first, -1)

    info = look(bytes(data))
    assert (len(info.batches), info.last_offset) == (10_000, 19_999)
    with pytest.raises(OffsetsOutOfOrderError):
        look(larger_first + data)


def test_a_followers_set_stays_where_it_is_and_a_leaders_is_copied() -> None:
    data = bytearray(TWO_RECORDS)

    assert np.shares_memory(look(data).data, np.frombuffer(data, np.uint8))
    assert not np.shares_memory(look(data, CLIENT).data, np.frombuffer(data, np.uint8))


@pytest.mark.parametrize("cut", [1, 17, 18, 40, 60])
def test_a_torn_last_batch_is_left_out(cut: int) -> None:
    torn = batch_at(0) + batch_at(2)[:-cut]

    assert look(torn).last_offset == 1
    assert look(torn).size == len(batch_at(0))


@pytest.mark.parametrize("data", [b"", b"\0" * 11, TWO_RECORDS[:-1], TWO_RECORDS[:17], TWO_RECORDS[:12]])
def test_without_a_whole_batch_there_is_nothing_to_append(data: bytes) -> None:
    info = look(data)

    assert (info.size, len(info.batches), info.first_offset, info.last_offset) == (0, 0, -1, -1)


# What Kafka's reader of a set in memory does with the same: CorruptRecordException for each.
@pytest.mark.parametrize(
    "tail",
    [
        bytes(12),
        bytes(61),
        TWO_RECORDS[:8] + (13).to_bytes(4, "big"),
        TWO_RECORDS[:16] + b"\3",
        TWO_RECORDS[:16] + b"\3" + TWO_RECORDS[17:],
        TWO_RECORDS[:16] + b"\xff" + TWO_RECORDS[17:],
        TWO_RECORDS[:8] + (20).to_bytes(4, "big") + TWO_RECORDS[12:],
    ],
)
def test_bytes_that_no_batch_begins_with_refuse_the_whole_set(tail: bytes) -> None:
    with pytest.raises(CorruptRecordError) as caught:
        look(batch_at(0) + tail)

    assert caught.value.position == len(batch_at(0))


def test_a_batch_too_short_for_its_format_is_torn_if_it_is_cut_off() -> None:
    """Kafka sees that bytes are missing before it sees that they would not be enough."""
    tail = TWO_RECORDS[:8] + (20).to_bytes(4, "big") + TWO_RECORDS[12:20]

    assert look(batch_at(0) + tail).last_offset == 1


def test_a_wrong_crc_refuses_the_whole_set() -> None:
    damaged = bytearray(batch_at(0) + batch_at(2))
    damaged[-1] ^= 1

    with pytest.raises(CorruptRecordError, match="CRC-32C") as caught:
        look(damaged)
    assert caught.value.position == len(batch_at(0))


def test_a_clients_batch_counts_from_zero() -> None:
    with pytest.raises(InvalidRecordError, match="base offset"):
        look(batch_at(5), CLIENT)
    assert look(batch_at(5), AppendOrigin.COORDINATOR).first_offset == 5


def test_a_batch_above_max_message_bytes_is_refused_but_not_from_a_leader() -> None:
    size = len(TWO_RECORDS)
    with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes"):
        look(TWO_RECORDS, CLIENT, limit=size - 1)

    assert look(TWO_RECORDS, CLIENT, limit=size).size == size
    assert look(TWO_RECORDS, REPLICATION, limit=None).size == size


def test_offsets_that_come_along_must_ascend() -> None:
    with pytest.raises(OffsetsOutOfOrderError, match="last offsets are 1, 3, 3"):
        look(batch_at(0) + batch_at(2) + batch_at(2))

    assert look(batch_at(0) + batch_at(2) + batch_at(9)).last_offset == 10


def test_what_gets_offsets_need_not_ascend() -> None:
    assert len(look(TWO_RECORDS * 2, CLIENT).batches) == 2


def test_batches_of_a_later_leader_wait_with_all_that_follow(caplog: pytest.LogCaptureFixture) -> None:
    data = batch_at(0, epoch=3) + batch_at(2, epoch=4) + batch_at(4, epoch=5) + batch_at(6, epoch=4)
    with caplog.at_level(logging.INFO, "stratalog"):
        info = look(data, epoch=4)

    assert (info.last_offset, info.last_leader_epoch) == (3, 4)
    assert info.size == 2 * len(batch_at(0))
    assert "leader epoch 5, this replica follows 4" in caplog.text


def test_batches_without_a_leader_epoch_are_taken() -> None:
    assert look(batch_at(0, epoch=-1), epoch=0).last_offset == 1


def test_damage_in_what_waits_is_not_looked_for() -> None:
    later = bytearray(batch_at(2, epoch=9))
    later[-1] ^= 1

    assert look(batch_at(0) + later, epoch=4).last_offset == 1


def test_the_metadata_quorum_writes_its_own_epoch_only() -> None:
    assert look(batch_at(7, epoch=3), RAFT, epoch=3).first_offset == 7
    with pytest.raises(InvalidRecordError, match="leader epoch 2"):
        look(batch_at(7, epoch=2), RAFT, epoch=3)


def test_a_codec_that_nobody_knows_is_refused() -> None:
    unknown = bytearray(TWO_RECORDS)
    unknown[:61] = BatchHeader.unpack(unknown)._replace(attributes=6).pack()
    write_crc(unknown, 0, len(unknown))

    with pytest.raises(UnsupportedCompressionTypeError) as caught:
        look(batch_at(0) + unknown)
    assert caught.value.position == len(batch_at(0))


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_nothing(data: bytes) -> None:
    try:
        info = look(data)
    except StratalogError:
        return
    batches, position, _ = naive.walk(data)
    assert (len(info.batches), info.size) == (len(batches), position)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 3), st.integers(-1, 50)), min_size=1, max_size=6),
    st.integers(0, 3),
)
def test_a_set_is_summed_up_as_the_slow_twin_does(
    shapes: list[tuple[int, int, int]], leader_epoch: int
) -> None:
    data, offset = b"", 0
    for gap, epoch, timestamp in shapes:
        data += batch_at(offset + gap, epoch=epoch, timestamp=timestamp)
        offset += gap + 2
    batches = naive.walk(data)[0]
    kept = []
    for batch in batches:
        if batch.partition_leader_epoch > leader_epoch:
            break
        kept.append(batch)

    info = look(data, epoch=leader_epoch)

    assert info.size == sum(batch.size for batch in kept)
    assert info.max_timestamp == max((batch.max_timestamp for batch in kept), default=-1)
    assert info.last_offset == (kept[-1].last_offset if kept else -1)
    assert info.first_offset == (kept[0].base_offset if kept else -1)


@pytest.mark.parametrize(
    "error",
    [
        OutOfOrderSequenceError("no", producer_id=3, sequence=4),
        InvalidTimestampError("no", record_errors=(RecordError(1, "late"),)),
        RecordValidationError("no", position=5, record_errors=(RecordError(0, "key"),)),
    ],
)
def test_a_refusal_keeps_its_facts_between_processes(error: StratalogError) -> None:
    again = pickle.loads(pickle.dumps(error))

    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
