"""Scans added one after the other give the same producers as replaying every batch."""

from __future__ import annotations

import pytest

from stratalog.log.epochs import EpochEntry, EpochStitch
from stratalog.log.log import Log
from stratalog.log.producers.entry import ProducerStateEntry
from stratalog.log.recovery.stitch import ProducerStitch, SnapshotSet
from stratalog.records.control import ControlType
from stratalog.records.kernels.crc32c import crc32c
from stratalog.records.kernels.memory import byte_array
from stratalog.segment.producers import BatchMetadata
from stratalog.segment.scan import SegmentScan, scan_segment
from tests.log.model import Machine, produced
from tests.profile import examples
from tests.segment.making import NOW, History, marker

DAY_MS = 86_400_000


def small_machine() -> Machine:
    """Small in all: indexes of 10 MB, on a disk in memory, are gigabytes before they are collected."""
    return Machine(internal_segment_bytes=6000, index_interval_bytes=100, segment_index_bytes=4096)


def scans(machine: Machine, log: Log) -> list[SegmentScan]:
    return [
        scan_segment(machine.disk, segment.log_path, segment.base_offset, index_interval_bytes=100)
        for segment in log.segments
    ]


def stitch(
    found: list[int] | None = None, entries: list[ProducerStateEntry] | None = None, now_ms: int = NOW
) -> ProducerStitch:
    snapshots = SnapshotSet(found or [], lambda _: entries)
    return ProducerStitch(snapshots, now_ms=now_ms, producer_id_expiration_ms=DAY_MS)


@pytest.mark.parametrize("seed", range(examples(300, quick=25)))
def test_stitched_producers_and_aborted_transactions_are_those_of_the_log(seed: int) -> None:
    machine = small_machine()
    log = machine.open()
    history = History(seed, 0, producers=5)
    for _ in range(60):
        log.append_as_follower(_with_epoch(history.batch()), leader_epoch=2**31 - 1)

    state = stitch()
    for segment, scan in zip(log.segments, scans(machine, log), strict=True):
        aborted = state.add(scan)
        assert aborted == segment.reader.txn_index.all_aborted()

    assert state.producers == log.producers.producers
    assert state.map_end_offset == log.log_end_offset
    assert state.contradictions == []


def test_a_snapshot_that_is_loaded_twice_says_the_same_twice() -> None:
    """Kafka goes through a segment without indexes twice, and reads the same snapshot before each time."""
    machine = small_machine()
    log = machine.open()
    log.append_as_follower(produced(5, 3, b"x", base_offset=8), leader_epoch=9)
    kept = ProducerStateEntry(5, producer_epoch=0, last_timestamp=NOW, batches=[BatchMetadata(2, 7, 0, NOW)])
    snapshots = SnapshotSet([8], lambda _: [kept])

    for _ in range(2):
        state = ProducerStitch(snapshots, now_ms=NOW, producer_id_expiration_ms=DAY_MS)
        state.reload(0, 8)
        assert [each.last_sequence for each in state.producers[5].batches] == [2]
        (scan,) = scans(machine, log)
        state.add(scan)
        assert [each.last_sequence for each in state.producers[5].batches] == [2, 3]


@pytest.mark.parametrize("seed", range(examples(100)))
def test_stitched_epochs_are_those_of_the_log(seed: int) -> None:
    machine = small_machine()
    log = machine.open()
    history = History(seed, 0)
    for _ in range(40):
        log.append_as_follower(_with_epoch(history.batch()), leader_epoch=2**31 - 1)

    epochs = EpochStitch()
    for scan in scans(machine, log):
        epochs.add(scan.epoch_starts)

    assert tuple(epochs.entries) == log.epochs.entries


def test_an_epoch_below_the_latest_known_brings_nothing() -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_follower(marker(5, 1, ControlType.COMMIT, leader_epoch=3), leader_epoch=9)
    (scan,) = scans(machine, log)

    epochs = EpochStitch([EpochEntry(4, 0)])
    epochs.add(scan.epoch_starts)

    assert epochs.entries == [EpochEntry(4, 0)]


def test_the_ends_of_the_log_cut_the_epochs() -> None:
    epochs = EpochStitch([EpochEntry(0, 0), EpochEntry(2, 10), EpochEntry(5, 20)])

    epochs.truncate_from_end(20)
    epochs.truncate_from_start(12)

    assert epochs.entries == [EpochEntry(2, 12)]


def test_a_marker_that_compaction_emptied_makes_its_producer_known() -> None:
    # Kafka stages an entry before it looks for the marker's record, and finds none.
    machine = Machine()
    log = machine.open()
    log.append_as_follower(_emptied(marker(0, 7, ControlType.ABORT, leader_epoch=0)), leader_epoch=0)
    (scan,) = scans(machine, log)

    state = stitch()
    state.add(scan)

    assert state.producers == {7: ProducerStateEntry(7)} == log.producers.producers


def test_who_is_silent_for_too_long_is_dropped_when_a_snapshot_is_loaded() -> None:
    silent = ProducerStateEntry(1, producer_epoch=0, last_timestamp=NOW - DAY_MS)
    in_time = ProducerStateEntry(2, producer_epoch=0, last_timestamp=NOW - DAY_MS + 1)
    has_open = ProducerStateEntry(3, producer_epoch=0, last_timestamp=0, current_txn_first_offset=4)
    state = stitch([10], [silent, in_time, has_open])

    state.reload(0, 12)

    assert [*state.producers] == [2, 3]
    assert state.map_end_offset == 10


def test_strays_go_but_for_the_newest_behind_all_segments() -> None:
    snapshots = SnapshotSet([3, 5, 7, 10, 12, 13], lambda _: [])

    snapshots.remove_strays([0, 5, 10])

    assert snapshots.offsets == [5, 10, 13]


def test_a_stray_before_the_last_segment_goes_even_if_it_is_the_newest() -> None:
    snapshots = SnapshotSet([5, 7], lambda _: [])

    snapshots.remove_strays([0, 5, 10])

    assert snapshots.offsets == [5]


def _with_epoch(batch: bytes) -> bytes:
    """The batch with a leader epoch, which every log's batches have; the checksum does not cover it."""
    return batch if batch[12] < 128 else batch[:12] + bytes(4) + batch[16:]


def _emptied(batch: bytes) -> bytes:
    """The batch without its record, as the cleaner leaves it, with a correct checksum."""
    header = bytearray(batch[:61])
    header[8:12] = (61 - 12).to_bytes(4, "big")
    header[57:61] = (0).to_bytes(4, "big")
    header[17:21] = int(crc32c(byte_array(bytes(header)), 21, 61)).to_bytes(4, "big")
    return bytes(header)
