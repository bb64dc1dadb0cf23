"""Where a log ends, and why: a broker's file with each kind of tail after its last batch."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import stratalog
from stratalog.clock import system_clock
from stratalog.config import LogConfig
from stratalog.errors import NeedsRecoveryError
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.log.api.view import LogView
from stratalog.log.log_end import (
    NOT_CLOSED,
    EndReason,
    Left,
    LogEnd,
    clean_end,
    last_batch,
    last_epoch,
    last_whole,
)
from tests.fixtures.catalog import Partition, partitions

CLOSED = Left(was_closed=True)
(ROLLED,) = [p for p in partitions("4.3.1", "clean") if p.name == "rolled-0"]
STRANGE_MAGIC = bytes(11) + b"\x60" + bytes(4) + b"\7" + bytes(100)
Damage = Callable[[bytes], bytes]


class Log:
    """A copy of a broker's log, whose newest file is changed; `batches` are Kafka's word on that file."""

    def __init__(self, partition: Partition, target: Path) -> None:
        self.directory = shutil.copytree(partition.path, target / partition.name)
        self.batches = list(partition.batches(partition.logs[-1]))
        self.path = self.directory / partition.logs[-1].name
        self.data = self.path.read_bytes()
        self.end_offset = self.batches[-1]["lastOffset"] + 1

    def view(self, left: Left = NOT_CLOSED) -> LogView:
        return LogView(
            disk=Disk(),
            clock=system_clock,
            directory=self.directory,
            topic_partition=TopicPartition("rolled", 0),
            config=LogConfig(),
            left=left,
        )


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(ROLLED, tmp_path)


TAILS: dict[str, tuple[Damage, EndReason]] = {
    "nothing": (lambda _: b"", EndReason.END_OF_FILE),
    "zeros of a preallocated file": (lambda _: bytes(4096), EndReason.ZEROS),
    "a batch that is cut off": (lambda data: data[: len(data) // 2], EndReason.TORN),
    "an impossible length": (lambda _: bytes(11) + b"\1" + bytes(100), EndReason.NO_BATCH),
    "a magic that no batch has": (
        lambda _: bytes(11) + b"\x60" + bytes(4) + b"\7" + bytes(100),
        EndReason.NO_BATCH,
    ),
}


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("left", [NOT_CLOSED, CLOSED])
def test_the_end_is_after_the_last_whole_batch_and_says_what_follows(log: Log, tail: str, left: Left) -> None:
    make, why = TAILS[tail]
    added = make(log.data[: log.batches[0]["size"]])
    log.path.write_bytes(log.data + added)

    end = log.view(left).end()

    assert (end.offset, end.position, end.path) == (log.end_offset, len(log.data), str(log.path))
    assert (end.why, end.hidden_size) == (why, len(added))
    assert end.was_closed == left.was_closed
    assert bool(end.reason) == end.hides_something == (why not in (EndReason.END_OF_FILE, EndReason.ZEROS))


def test_a_reader_of_a_log_that_was_not_closed_stops_where_checksums_stop_holding(log: Log) -> None:
    last = log.batches[-1]
    start = len(log.data) - last["size"]
    log.path.write_bytes(log.data[:-1] + bytes([log.data[-1] ^ 1]))

    end = log.view().valid_end()

    assert (end.offset, end.position) == (last["baseOffset"], start)
    assert (end.why, end.hidden_size) == (EndReason.WRONG_CHECKSUM, last["size"])


def test_a_wrong_checksum_in_a_log_that_was_closed_is_damage_and_not_its_end(log: Log) -> None:
    log.path.write_bytes(log.data[:-1] + bytes([log.data[-1] ^ 1]))

    end = log.view(CLOSED).valid_end()

    assert (end.offset, end.position, end.why) == (log.end_offset, len(log.data), EndReason.END_OF_FILE)


@pytest.mark.parametrize("mark", ["recovery_point", "high_watermark"])
def test_a_wrong_checksum_below_a_checkpoint_is_damage_and_not_the_end(log: Log, mark: str) -> None:
    log.path.write_bytes(log.data[:-1] + bytes([log.data[-1] ^ 1]))

    end = log.view(Left(**{mark: log.end_offset})).valid_end()

    assert (end.offset, end.position, end.why) == (log.end_offset, len(log.data), EndReason.END_OF_FILE)
    assert end.missing_end is None


@pytest.mark.parametrize("is_in_use", [True, False])
def test_a_batch_that_is_cut_off_below_a_checkpoint_is_missing(log: Log, is_in_use: bool) -> None:
    last = log.batches[-1]
    log.path.write_bytes(log.data[:-1])

    end = log.view(Left(recovery_point=log.end_offset, is_in_use=is_in_use)).valid_end()

    assert (end.offset, end.why, end.hidden_size) == (last["baseOffset"], EndReason.TORN, last["size"] - 1)
    assert end.missing_end == log.end_offset


@pytest.mark.parametrize("was_closed", [True, False])
@pytest.mark.parametrize("tail", [b"", bytes(4096)], ids=["nothing", "zeros"])
@pytest.mark.parametrize("is_in_use", [True, False])
def test_a_log_that_only_ends_below_a_checkpoint_need_not_have_lost_records(
    log: Log, was_closed: bool, tail: bytes, is_in_use: bool
) -> None:
    """A truncation inside the last batch leaves the same bytes and the same checkpoints."""
    last = log.batches[-1]
    log.path.write_bytes(log.data[: -last["size"]] + tail)
    left = Left(was_closed, log.end_offset - 1, log.end_offset - 1, is_in_use)

    end = log.view(left).valid_end()

    assert (end.offset, end.missing_end) == (last["baseOffset"], None)
    assert not end.hides_something


@pytest.mark.parametrize("tail", ["cut off", "wrong checksum"])
def test_a_crash_tail_after_a_truncation_inside_a_batch_is_not_damage(log: Log, tail: str) -> None:
    """The last batch begins where the log was truncated to, in the middle of the one before it."""
    before, last = log.batches[-2:]
    start = len(log.data) - last["size"]
    batch = log.data[start:-1] + (b"" if tail == "cut off" else bytes([log.data[-1] ^ 1]))
    log.path.write_bytes(log.data[: start - before["size"]] + batch)
    truncated_to = before["lastOffset"]
    at_last = struct.pack(">q", truncated_to)
    data = log.path.read_bytes()
    log.path.write_bytes(data[: -len(batch)] + at_last + batch[8:])

    end = log.view(Left(recovery_point=truncated_to, high_watermark=truncated_to)).valid_end()

    assert before["baseOffset"] < truncated_to
    assert (end.offset, end.missing_end) == (before["baseOffset"], None)


def test_beside_a_broker_a_batch_that_is_cut_off_below_the_high_watermark_is_being_written(log: Log) -> None:
    """The high watermark of a truncated log or of a re-created topic is too high for some seconds."""
    last = log.batches[-1]
    log.path.write_bytes(log.data[:-1])
    left = Left(recovery_point=last["baseOffset"], high_watermark=log.end_offset + 1000)

    stopped, running = log.view(left).valid_end(), log.view(left._replace(is_in_use=True)).valid_end()

    assert (stopped.offset, stopped.missing_end) == (last["baseOffset"], log.end_offset + 1000)
    assert (running.offset, running.missing_end) == (last["baseOffset"], None)


def test_beside_a_broker_a_wrong_checksum_below_the_high_watermark_is_damage(log: Log) -> None:
    log.path.write_bytes(log.data[:-1] + bytes([log.data[-1] ^ 1]))

    end = log.view(Left(high_watermark=log.end_offset, is_in_use=True)).valid_end()

    assert (end.offset, end.position) == (log.end_offset, len(log.data))


@pytest.mark.parametrize("tail", ["wrong checksum, then a cut off batch", "no batch"])
def test_beside_a_broker_bytes_that_no_write_explains_are_damage(log: Log, tail: str) -> None:
    last = log.batches[-1]
    start = len(log.data) - last["size"]
    batch = log.data[start:]
    damaged = STRANGE_MAGIC if tail == "no batch" else batch[:-1] + bytes([batch[-1] ^ 1]) + batch[:-1]
    log.path.write_bytes(log.data[:start] + damaged)

    end = log.view(Left(high_watermark=log.end_offset, is_in_use=True)).valid_end()

    assert (end.offset, end.missing_end) == (last["baseOffset"], log.end_offset)
    assert end.hidden_size == len(damaged)


def test_garbage_below_a_checkpoint_is_damage_although_its_offset_is_past_it(log: Log) -> None:
    last = log.batches[-1]
    start = len(log.data) - last["size"]
    log.path.write_bytes(log.data[:start] + b"\x7f" + log.data[start + 1 : -1])

    end = log.view(Left(recovery_point=log.end_offset)).valid_end()

    assert (end.offset, end.missing_end) == (last["baseOffset"], log.end_offset)


def test_a_crash_tail_above_the_checkpoints_is_not_damage(log: Log) -> None:
    last = log.batches[-1]
    log.path.write_bytes(log.data[:-1] + bytes([log.data[-1] ^ 1]))

    end = log.view(Left(recovery_point=last["baseOffset"], high_watermark=last["baseOffset"])).valid_end()

    assert (end.offset, end.missing_end) == (last["baseOffset"], None)


def test_a_log_that_was_closed_goes_on_past_damage(log: Log) -> None:
    last = log.batches[-1]
    start = len(log.data) - last["size"]
    log.path.write_bytes(log.data[:start] + b"\xff" * 50 + log.data[start:])

    seen, read = log.view(CLOSED).end(), log.view(CLOSED).valid_end()

    assert (seen.offset, seen.position, seen.why) == (last["baseOffset"], start, EndReason.NO_BATCH)
    assert (read.offset, read.position) == (log.end_offset, len(log.data) + 50)


def test_a_log_without_a_segment_ends_where_it_starts(tmp_path: Path) -> None:
    (tmp_path / "rolled-0").mkdir()
    view = LogView(
        disk=Disk(),
        clock=system_clock,
        directory=tmp_path / "rolled-0",
        topic_partition=TopicPartition("rolled", 0),
        config=LogConfig(),
        log_start_offset=7,
    )

    assert view.end() == view.valid_end() == LogEnd(offset=7)


@pytest.mark.parametrize("tail", [tail for tail in TAILS if tail != "nothing"])
def test_a_log_that_goes_on_past_its_last_batch_is_not_written_to(log: Log, tail: str) -> None:
    assert clean_end(log.view().segments.active) == log.end_offset
    added = TAILS[tail][0](log.data[: log.batches[0]["size"]])
    log.path.write_bytes(log.data + added)
    active = log.view().segments.active
    active.size = len(log.data) + len(added)

    with pytest.raises(NeedsRecoveryError):
        clean_end(active)


def test_the_epoch_of_a_log_is_that_of_its_last_batch(log: Log) -> None:
    segments = tuple(log.view().segments)
    expected = log.batches[-1]["partitionLeaderEpoch"]

    assert last_epoch(segments) == expected > 0
    log.path.write_bytes(b"")
    assert last_epoch(tuple(log.view().segments)) <= expected, "of the segment before"
    assert last_epoch(()) == -1


@pytest.mark.parametrize("name", TAILS)
def test_the_last_batch_is_found_whatever_follows_it(log: Log, name: str) -> None:
    tail, _ = TAILS[name]
    log.path.write_bytes(log.data + tail(log.data[: log.batches[0]["size"]]))
    segment = log.view().segments.active
    segment.size = log.path.stat().st_size

    found = last_batch(segment)

    assert found is not None
    assert (found.last_offset, found.position) == (log.end_offset - 1, log.batches[-1]["position"])


def test_the_last_batch_is_found_though_the_index_points_past_the_file(log: Log) -> None:
    log.path.with_suffix(".index").write_bytes((5).to_bytes(4, "big") + (1 << 20).to_bytes(4, "big"))
    segment = log.view().segments.active

    found = last_batch(segment)

    assert found is not None
    assert found.last_offset + 1 == log.end_offset == last_whole(segment)[0]


def test_a_segment_without_a_batch_has_no_last_one(log: Log) -> None:
    log.path.write_bytes(b"")
    assert last_batch(log.view().segments.active) is None
    log.path.write_bytes(bytes(4096))
    assert last_batch(log.view().segments.active) is None


@pytest.mark.parametrize("left", [CLOSED, NOT_CLOSED], ids=["closed", "not closed"])
@pytest.mark.parametrize("size", [4, 9, 20])
def test_inserted_bytes_do_not_make_garbage_the_end_of_a_log(tmp_path: Path, size: int, left: Left) -> None:
    """The index then points into the values of records, which look like headers here."""
    header = struct.pack(">qiibI", 2135451778156593153, 100, 0, 2, 0) + bytes(91)
    with stratalog.open_log(tmp_path / "t-0", create=True) as written:
        for _ in range(200):
            written.append(header * 10)
    log = next((tmp_path / "t-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    batch = len(data) // 200
    garbage_at = data.index(header, 199 * batch) - 199 * batch
    index = log.with_suffix(".index")
    entries = index.read_bytes()
    (indexed,) = struct.unpack(">i", entries[-4:])
    data[10 * batch + 100 : 10 * batch + 100] = bytes(size)
    log.write_bytes(data)
    # As if the batches were shifted so far that the last entry points to the value of one.
    index.write_bytes(entries[:-4] + struct.pack(">i", indexed + garbage_at + size))

    view = LogView(
        disk=Disk(),
        clock=system_clock,
        directory=tmp_path / "t-0",
        topic_partition=TopicPartition("t", 0),
        config=LogConfig(),
        left=left,
    )

    assert view.log_end_offset <= 200
    assert view.valid_end().offset in ([200] if left.was_closed else range(201))
    last_one = last_batch(view.segments.active)
    assert last_one is not None
    assert last_one.last_offset < 200


def test_a_damaged_header_before_the_end_does_not_hide_the_batches_after_it(tmp_path: Path) -> None:
    """Five bytes of a header are lost: it says other offsets, and the next batch does not follow."""
    with stratalog.open_log(tmp_path / "t-0", create=True) as written:
        for number in range(100):
            written.append(b"value %d" % number * 10)
    log = next((tmp_path / "t-0").glob("*.log"))
    healthy = log.read_bytes()
    for at in range(17, 56):  # after the magic, whose change makes it a message of an old format
        start = healthy.index(struct.pack(">q", 60), 59 * 140)
        log.write_bytes(healthy[: start + at] + healthy[start + at + 5 :])

        found = stratalog.scan(tmp_path, on_corruption="skip", columns=["offset"])
        with pytest.warns(stratalog.OmissionWarning):
            offsets = found.to_table()["offset"].to_pylist()

        assert offsets == [each for each in range(100) if each != 60]
        assert [(each.first_offset, each.end_offset) for each in found.omissions] == [(60, 61)]
