"""Appends as leader and as follower: offsets, limits, epochs, what is refused, and the order of the steps."""

from __future__ import annotations

import errno
import random
from contextlib import suppress
from typing import Any

import pytest

from stratalog.errors import (
    CorruptRecordError,
    DiskError,
    IndexFullError,
    OffsetsOutOfOrderError,
    OutOfOrderSequenceError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    RecordValidationError,
    SegmentOffsetOverflowError,
    UnexpectedAppendOffsetError,
)
from stratalog.limits import INT64_MAX
from stratalog.log.append import AppendInfo, analyze
from stratalog.log.log import Log
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.origin import AppendOrigin
from stratalog.log.producers.append_info import TV_UNKNOWN
from stratalog.log.producers.verification import NO_GUARD
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.segment.segment import LogSegment
from tests.log.model import NOW, Machine, batch, produced, read_all


def append(log: Log, data: bytes, leader_epoch: int = 0) -> AppendInfo:
    origin = AppendOrigin.CLIENT
    info = analyze(data, origin=origin, max_message_bytes=None, leader_epoch=leader_epoch)
    return log._appender.append(info, origin, leader_epoch, TV_UNKNOWN, NO_GUARD)


def test_a_set_gets_the_next_offsets_and_moves_the_end() -> None:
    log = Machine().open()
    append(log, batch(b"a"))

    info = append(log, batch(b"b", b"c"))

    assert (info.first_offset, info.last_offset) == (1, 2)
    assert log._marks.end == OffsetMetadata(3, 0, log.size)


def test_a_retry_gets_the_offsets_of_then_and_is_not_written() -> None:
    log = Machine().open()
    append(log, produced(1, 0, b"a"))
    append(log, produced(1, 1, b"b"))
    size = log.size

    info = append(log, produced(1, 0, b"a"))

    assert (info.first_offset, info.last_offset, log.size) == (0, 0, size)


def test_a_set_that_is_refused_changes_neither_end_nor_producers() -> None:
    log = Machine().open()
    append(log, produced(1, 0, b"a"))

    with pytest.raises(OutOfOrderSequenceError):
        append(log, produced(1, 5, b"b"))

    assert (log.log_end_offset, log.producers.producers[1].last_sequence) == (1, 0)


def test_a_set_larger_than_a_segment_is_refused() -> None:
    log = Machine(internal_segment_bytes=100).open()

    with pytest.raises(RecordBatchTooLargeError):
        append(log, batch(bytes(100)))


def test_a_set_that_does_not_fit_begins_a_segment() -> None:
    log = Machine(internal_segment_bytes=100).open()
    for _ in range(2):
        append(log, batch(b"a"))

    assert log.segments.base_offsets == (0, 1)


def test_an_epoch_is_known_before_its_records_and_stays_if_they_do_not_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Machine().open()

    def refuse(*_: Any) -> None:
        raise DiskError("orders-0", "no space", errno.ENOSPC)

    monkeypatch.setattr(LogSegment, "append_batch", refuse)
    with pytest.raises(DiskError):
        append(log, batch(b"a"), leader_epoch=7)

    assert [tuple(entry) for entry in log.epochs.entries] == [(7, 0)]
    assert (log.log_end_offset, log.producers.producers) == (0, {})


def test_an_interrupt_while_bytes_are_written_fails_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Machine().open()

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LogSegment, "append_batch", interrupt)
    with pytest.raises(KeyboardInterrupt):
        append(log, batch(b"a"))

    assert log.failure is not None


def test_an_empty_directory_is_a_log_that_can_be_appended_to() -> None:
    log = Machine().open()

    assert log.append_as_leader(batch(b"first"), leader_epoch=0).first_offset == 0


def test_a_log_whose_directory_was_emptied_goes_on_at_its_start_offset() -> None:
    log = Machine().open(log_start_offset=500)

    assert (log.log_start_offset, log.log_end_offset) == (500, 500)


def test_records_get_one_offset_after_the_other() -> None:
    log = Machine(internal_segment_bytes=300).open()

    infos = [log.append_as_leader(batch(b"%d" % i), leader_epoch=0) for i in range(50)]

    assert [info.first_offset for info in infos] == list(range(50))
    assert [(r.offset, r.value) for r in read_all(log)] == [(i, b"%d" % i) for i in range(50)]
    assert log.read(50, 1000).records == b""


def test_the_first_offset_is_told_also_of_a_batch_that_rolls_the_segment() -> None:
    log = Machine(internal_segment_bytes=100).open()
    log.append_as_leader(batch(b"x"), leader_epoch=0)

    info = log.append_as_leader(batch(b"y", b"z"), leader_epoch=0)

    assert (info.first_offset, info.last_offset) == (1, 2)
    assert log.segments.base_offsets == (0, 1)


def test_a_follower_keeps_the_gaps_between_offsets() -> None:
    log = Machine(internal_segment_bytes=200).open()
    offsets = [0, 1, 5, 6, 20, 40, 41]
    for offset in offsets:
        log.append_as_follower(batch(b"x", base_offset=offset), leader_epoch=0)

    assert [record.offset for record in read_all(log)] == offsets
    assert [record.offset for record in read_all(log, 7)] == [20, 40, 41]


def test_a_follower_refuses_offsets_that_do_not_ascend() -> None:
    log = Machine().open()
    data = b"".join(batch(b"x", base_offset=offset) for offset in (0, 2, 1))

    with pytest.raises(OffsetsOutOfOrderError):
        log.append_as_follower(data, leader_epoch=0)

    assert log.log_end_offset == 0


@pytest.mark.parametrize("codec", Codec)
def test_a_follower_refuses_a_set_below_the_end(codec: Codec) -> None:
    log = Machine().open()
    log.append_as_follower(batch(b"x", b"y"), leader_epoch=0)

    with pytest.raises(UnexpectedAppendOffsetError) as refused:
        log.append_as_follower(batch(b"x", b"y", base_offset=1, codec=codec), leader_epoch=0)

    assert (refused.value.first_offset, refused.value.last_offset) == (1, 2)


def test_the_refusal_below_the_start_of_an_empty_log_tells_both_offsets() -> None:
    log = Machine().open()
    log.truncate_fully_and_start_at(7)

    with pytest.raises(UnexpectedAppendOffsetError) as refused:
        log.append_as_follower(batch(b"a", b"b", b"c", base_offset=4), leader_epoch=0)

    assert (refused.value.first_offset, refused.value.last_offset) == (4, 6)


def test_the_metadata_quorum_brings_its_offsets() -> None:
    log = Machine().open()
    raft = AppendOrigin.RAFT_LEADER

    log.append_as_leader(batch(b"x", base_offset=0, leader_epoch=1), leader_epoch=1, origin=raft)
    with pytest.raises(UnexpectedAppendOffsetError):
        log.append_as_leader(batch(b"y", base_offset=0, leader_epoch=1), leader_epoch=1, origin=raft)
    log.append_as_leader(batch(b"y", base_offset=1, leader_epoch=1), leader_epoch=1, origin=raft)

    assert [record.offset for record in read_all(log)] == [0, 1]


@pytest.mark.parametrize("as_leader", [False, True])
def test_the_last_offset_of_all_is_refused_because_no_log_could_end_after_it(as_leader: bool) -> None:
    append = Log.append_as_leader if as_leader else Log.append_as_follower
    beyond = batch(b"y", b"z", base_offset=0 if as_leader else INT64_MAX - 1)
    machine = Machine()
    log = machine.open()
    log.append_as_follower(batch(b"x", base_offset=INT64_MAX - 2), leader_epoch=0)

    with pytest.raises(UnexpectedAppendOffsetError, match="9223372036854775807") as refused:
        append(log, beyond, leader_epoch=0)

    assert (refused.value.last_offset, log.log_end_offset) == (INT64_MAX, INT64_MAX - 1)
    log.append_as_leader(batch(b"y"), leader_epoch=0)

    assert machine.reopen(log).log_end_offset == INT64_MAX


def test_a_batch_above_max_message_bytes_is_refused_by_a_leader_and_taken_by_a_follower() -> None:
    large = batch(b"x" * 200)
    log = Machine(max_message_bytes=100).open()

    with pytest.raises(RecordTooLargeError):
        log.append_as_leader(large, leader_epoch=0)
    log.append_as_follower(large, leader_epoch=0)

    assert log.log_end_offset == 1


@pytest.mark.parametrize("as_leader", [True, False])
def test_a_set_that_no_segment_holds_is_refused(as_leader: bool) -> None:
    log = Machine(internal_segment_bytes=100).open()
    data = batch(b"x" * 200)

    append = log.append_as_leader if as_leader else log.append_as_follower

    with pytest.raises(RecordBatchTooLargeError) as refused:
        append(data, leader_epoch=0)

    assert (refused.value.size, refused.value.limit) == (len(data), 100)


def test_a_compacted_topic_takes_no_record_without_a_key() -> None:
    log = Machine(cleanup_policy="compact").open()

    with pytest.raises(RecordValidationError) as refused:
        log.append_as_leader(
            build_batch([Record(0, NOW, b"k", b"a"), Record(1, NOW, None, b"b")]), leader_epoch=0
        )
    log.append_as_leader(batch(b"a", key=b"k"), leader_epoch=0)

    assert [error.batch_index for error in refused.value.record_errors] == [1]
    assert log.log_end_offset == 1


def test_a_tombstone_comes_back_as_one() -> None:
    log = Machine().open()
    log.append_as_leader(build_batch([Record(0, NOW, b"k", None)]), leader_epoch=0)

    assert [(record.key, record.value) for record in read_all(log)] == [(b"k", None)]


def test_a_record_may_have_no_timestamp() -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"x", timestamp=-1), leader_epoch=0)

    assert [record.timestamp for record in read_all(log)] == [-1]


def test_offsets_inside_a_compressed_batch_lead_to_that_batch() -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"hello", b"there", codec=Codec.GZIP), leader_epoch=0)
    log.append_as_leader(batch(b"alpha", b"beta", codec=Codec.GZIP), leader_epoch=0)

    found = [log.read(offset, 4096).offset.offset for offset in range(4)]

    assert found == [0, 0, 2, 2]


def test_a_leader_puts_its_epoch_into_the_batches_and_the_cache() -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a"), leader_epoch=72)
    log.append_as_leader(batch(b"b"), leader_epoch=73)

    assert [tuple(entry) for entry in log.epochs.entries] == [(72, 0), (73, 1)]
    found = log.fetch_offset_by_timestamp(NOW)
    assert found is not None
    assert found.leader_epoch == 72


def test_an_epoch_that_was_said_to_start_later_starts_with_its_first_record() -> None:
    log = Machine().open()
    log.assign_epoch_start_offset(1, 5)

    log.append_as_leader(batch(b"x"), leader_epoch=1)

    assert log.epochs.entries == ((1, 0),)


def test_a_follower_learns_epochs_from_the_batches() -> None:
    machine = Machine()
    log = machine.open()
    for offset in range(5):
        log.append_as_follower(batch(b"x", base_offset=offset, leader_epoch=42), leader_epoch=42)

    assert [tuple(entry) for entry in log.epochs.entries] == [(42, 0)]
    text = machine.disk.read_at(f"{machine.directory}/leader-epoch-checkpoint", 100, 0)
    assert text == b"0\n1\n42 0\n"


def test_a_follower_leaves_batches_of_a_later_epoch_than_its_own() -> None:
    log = Machine().open()
    data = b"".join(batch(b"x", base_offset=i, leader_epoch=epoch) for i, epoch in enumerate([1, 1, 3, 1]))

    log.append_as_follower(data, leader_epoch=2)

    assert log.log_end_offset == 2


def test_a_message_of_an_old_format_clears_the_epochs(message_v1: bytes) -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"x"), leader_epoch=5)

    log.append_as_follower(message_v1, leader_epoch=5)

    assert log.epochs.entries == ()


@pytest.mark.parametrize("size", [0, 1, 11, 16, 60])
def test_a_set_without_a_whole_batch_is_nothing_to_append(size: int) -> None:
    log = Machine().open()

    log.append_as_follower(batch(b"hello")[:size], leader_epoch=0)

    assert log.log_end_offset == 0


@pytest.mark.parametrize(("position", "value"), [(11, 13), (16, 3), (16, 255)])
def test_a_length_or_magic_that_no_batch_has_is_corrupt(position: int, value: int) -> None:
    log = Machine().open()
    data = bytearray(batch(b"hello"))
    data[position] = value

    with pytest.raises(CorruptRecordError):
        log.append_as_follower(data, leader_epoch=0)

    assert log.log_end_offset == 0


def test_random_bytes_never_move_the_end() -> None:
    log = Machine().open()
    draw = random.Random(7)

    for _ in range(300):
        with suppress(CorruptRecordError):  # or nothing, where they look like the beginning of a batch
            log.append_as_follower(draw.randbytes(draw.randrange(200)), leader_epoch=0)
    assert (log.log_end_offset, log.size) == (0, 0)


def test_a_set_in_which_an_index_fills_up_goes_into_the_next_segment() -> None:
    log = Machine(index_interval_bytes=1, segment_index_bytes=48).open()
    log.append_as_leader(batch(b"x"), leader_epoch=0)
    batches = [batch(b"x", timestamp=NOW + i, base_offset=i) for i in range(1, 5)]

    log.append_as_follower(b"".join(batches), leader_epoch=0)

    assert log.segments.base_offsets == (0, 1)
    assert [record.offset for record in read_all(log)] == [0, 1, 2, 3, 4]


def test_a_set_that_fills_even_an_empty_index_is_refused_and_leaves_nothing() -> None:
    log = Machine(index_interval_bytes=1, segment_index_bytes=48).open()
    batches = [batch(b"x", timestamp=NOW + i, base_offset=i) for i in range(9)]

    with pytest.raises(IndexFullError):
        log.append_as_follower(b"".join(batches), leader_epoch=0)

    assert (log.log_end_offset, log.size) == (0, 0)


def test_recompression_follows_the_topic() -> None:
    log = Machine(compression_type="zstd").open()
    log.append_as_leader(batch(b"a" * 50, b"b" * 50), leader_epoch=0)

    codec = Codec.from_attributes(log.read(0, 4096).records[22])

    assert codec is Codec.ZSTD
    assert [record.value for record in read_all(log)] == [b"a" * 50, b"b" * 50]


def test_log_append_time_is_the_clock_s() -> None:
    machine = Machine(message_timestamp_type="LogAppendTime")
    log = machine.open()
    machine.clock.sleep(5)
    log.append_as_leader(build_batch([Record(0, 17, None, b"x")], BatchOptions()), leader_epoch=0)

    assert [record.timestamp for record in read_all(log)] == [NOW + 5]


def test_a_set_that_an_empty_index_has_no_room_for_does_not_fail_the_log() -> None:
    log = Machine(index_interval_bytes=1, segment_index_bytes=48).open()
    batches = [batch(b"x", timestamp=NOW + i, base_offset=i) for i in range(9)]
    with pytest.raises(IndexFullError):
        log.append_as_follower(b"".join(batches), leader_epoch=0)

    for data in batches:
        log.append_as_follower(data, leader_epoch=0)

    assert [record.offset for record in read_all(log)] == list(range(9))


def test_a_set_that_spans_more_offsets_than_a_segment_does_not_fail_the_log() -> None:
    log = Machine().open()
    near, far = batch(b"x"), batch(b"y", base_offset=2**31)

    with pytest.raises(SegmentOffsetOverflowError):
        log.append_as_follower(near + far, leader_epoch=0)
    for data in (near, far):
        log.append_as_follower(data, leader_epoch=0)

    assert log.segments.base_offsets == (0, 2**31)
    assert [record.offset for record in read_all(log)] == [0, 2**31]
