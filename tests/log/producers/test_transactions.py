"""Transactions: where they begin and end, on their own and in a log, and what is stable."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import DiskError, UsageError
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.origin import AppendOrigin
from stratalog.log.producers.entry import CompletedTxn, TxnMetadata
from tests.log.model import NOW, Machine, append_marker, batch, produced
from tests.log.producing import Producers
from tests.log.transacting import ABORT, COMMIT, COMMITTED, Script, disk_of


def test_a_transaction_is_open_from_its_first_batch_to_its_marker(producers: Producers) -> None:
    first = producers.append(1, 0, 16, transactional=True)
    assert first.current_txn_first_offset == 16
    producers.append(1, 1, 17, count=4, transactional=True)
    producers.append(1, 5, 21, count=10, transactional=True)
    completed = producers.end(1, 40, coordinator_epoch=15)

    entry = producers.state.producers[1]
    assert completed == CompletedTxn(1, 16, 40, is_aborted=False)
    assert entry.current_txn_first_offset is None
    assert (entry.first_data_offset, entry.last_data_offset) == (16, 30)
    assert (entry.first_sequence, entry.last_sequence, entry.coordinator_epoch) == (0, 14, 15)


def test_the_place_of_the_first_batch_is_remembered(producers: Producers) -> None:
    info = producers.state.prepare_update(1, AppendOrigin.CLIENT)
    place = OffsetMetadata(992342, 990000, 234224)
    info.append_data(
        producer_epoch=0,
        base_sequence=0,
        last_sequence=0,
        max_timestamp=NOW,
        first_offset=place,
        last_offset=992342,
        is_transactional=True,
    )
    assert info.started == [TxnMetadata(1, place)]
    producers.state.update(info)

    assert producers.state.first_unstable_offset == place


def test_the_first_unstable_offset_moves_when_the_marker_is_replicated(producers: Producers) -> None:
    assert producers.first_unstable is None
    producers.append(1, 0, 99, transactional=True)
    assert (producers.first_unstable, producers.state.first_undecided_offset) == (99, 99)
    producers.append(2, 0, 105, transactional=True)

    producers.end(1, 112, abort=True)
    assert (producers.first_unstable, producers.state.first_undecided_offset) == (99, 105)
    producers.state.on_high_watermark_updated(112)
    assert producers.first_unstable == 99
    producers.state.on_high_watermark_updated(113)
    assert producers.first_unstable == 105

    producers.end(2, 120)
    producers.state.on_high_watermark_updated(121)
    assert producers.first_unstable is None


def test_the_last_stable_offset_of_an_ended_transaction_is_that_of_the_next_open_one(
    producers: Producers,
) -> None:
    producers.append(1, 0, 0, transactional=True)
    producers.append(2, 0, 1, transactional=True)
    producers.append(3, 0, 2, transactional=True)

    stable = []
    for producer_id, offset in ((1, 5), (2, 6), (3, 7)):
        completed = producers.end(producer_id, offset, complete=False)
        assert completed is not None
        stable.append(producers.state.last_stable_offset(completed))
        producers.state.complete_txn(completed)

    assert stable == [1, 2, 8]


def test_markers_of_empty_transactions_end_nothing(producers: Producers) -> None:
    assert producers.end(1, 1) is None
    assert producers.end(1, 2, abort=True) is None
    producers.append(1, 0, 3, transactional=True)
    assert producers.end(1, 4) == CompletedTxn(1, 3, 4, is_aborted=False)
    assert producers.end(1, 5) is None

    assert producers.state.first_undecided_offset is None


def test_a_transaction_that_never_began_cannot_be_completed(producers: Producers) -> None:
    with pytest.raises(UsageError, match="never started"):
        producers.state.complete_txn(CompletedTxn(1, 0, 5, is_aborted=True))


def test_started_out_of_order_they_still_stand_in_order(producers: Producers) -> None:
    producers.append(1, 0, 11, transactional=True)
    producers.append(2, 0, 5, transactional=True)

    assert producers.first_unstable == 5


def test_a_raised_log_start_drops_what_ended_before_it(producers: Producers) -> None:
    producers.append(1, 0, 0, transactional=True)
    producers.end(1, 1)
    producers.state.on_log_start_offset_incremented(1)
    assert producers.first_unstable == 0

    producers.state.on_log_start_offset_incremented(7)

    assert producers.first_unstable is None
    assert producers.state.map_end_offset == 7
    assert 1 in producers.state.producers


def test_a_transaction_is_late_five_minutes_after_the_longest_timeout(tmp_path: Path) -> None:
    producers = Producers(tmp_path, transaction_max_timeout_ms=1000)
    late = NOW + 1000 + 5 * 60 * 1000
    assert not producers.state.has_late_transaction(2 * NOW)
    producers.append(1, 0, 0, transactional=True)
    assert not producers.state.has_late_transaction(late)
    assert producers.state.has_late_transaction(late + 1)

    producers.append(1, 1, 1, transactional=True, timestamp=NOW + 10)
    assert not producers.state.has_late_transaction(late + 1)
    producers.end(1, 2)
    assert not producers.state.has_late_transaction(late + 100_000)


def test_the_oldest_transaction_decides_what_is_late(tmp_path: Path) -> None:
    producers = Producers(tmp_path, transaction_max_timeout_ms=1000)
    late = NOW + 1001 + 5 * 60 * 1000
    producers.append(1, 0, 0, transactional=True, timestamp=NOW + 500)
    producers.append(2, 0, 1, transactional=True, timestamp=NOW)
    assert not producers.state.has_late_transaction(late)

    producers.end(1, 2)

    assert producers.state.has_late_transaction(late)


@pytest.mark.parametrize("end_offset", [0, 2])
def test_truncation_takes_the_late_transaction_away(tmp_path: Path, end_offset: int) -> None:
    producers = Producers(tmp_path, transaction_max_timeout_ms=1000)
    producers.append(2, 0, 0)
    producers.append(2, 1, 1)
    producers.state.take_snapshot()
    producers.append(1, 0, 2, transactional=True)
    late = NOW + 1001 + 5 * 60 * 1000
    assert producers.state.has_late_transaction(late)

    producers.state.truncate_and_reload(0, end_offset, NOW)

    assert not producers.state.has_late_transaction(late)
    assert producers.first_unstable is None


def test_a_late_transaction_is_late_after_a_reload_too(tmp_path: Path) -> None:
    producers = Producers(tmp_path, transaction_max_timeout_ms=1000)
    producers.append(1, 0, 0, transactional=True)
    producers.state.take_snapshot()

    reopened = producers.reopened()
    reopened.truncate_and_reload(0, 1, NOW)

    assert reopened.has_late_transaction(NOW + 1001 + 5 * 60 * 1000)


def test_truncation_back_to_a_snapshot_opens_the_transaction_again(producers: Producers) -> None:
    producers.append(1, 0, 0, transactional=True)
    producers.append(2, 0, 1, transactional=True)
    producers.state.take_snapshot()
    producers.end(1, 2)
    producers.state.on_high_watermark_updated(3)
    assert producers.first_unstable == 1

    producers.state.truncate_and_reload(0, 2, NOW)

    assert producers.first_unstable == 0
    producers.state.truncate_and_reload(0, 1, NOW)
    assert producers.first_unstable is None


def test_without_transactions_everything_below_the_high_watermark_is_stable() -> None:
    log = Machine().open(embedded=False)
    log.append_as_leader(produced(1, 0, b"a"), leader_epoch=0)
    log.update_high_watermark(1)

    assert log.producers.first_unstable_offset is None
    assert log.last_stable_offset == 1


def test_a_transaction_is_stable_when_its_marker_is_below_the_high_watermark() -> None:
    log = Machine().open(embedded=False)
    script = Script(log)
    script.transact(1, 3)
    log.update_high_watermark(3)
    assert log.last_stable_offset == 0

    append_marker(log, 1, COMMIT)
    assert log.last_stable_offset == 0
    log.update_high_watermark(4)

    assert log.last_stable_offset == 4


def test_the_last_stable_offset_waits_for_the_first_open_transaction() -> None:
    log = Machine().open()
    script = Script(log)
    script.transact(1, 2)
    script.plain(1)
    script.transact(2, 2)
    assert log.last_stable_offset == 0

    append_marker(log, 1, ABORT)
    assert log.last_stable_offset == 3
    append_marker(log, 2, COMMIT)

    assert log.last_stable_offset == log.log_end_offset == 7


def test_aborted_transactions_are_indexed_as_in_kafka() -> None:
    log = Machine().open()
    Script(log).worked_example()

    entries, _ = log.segments.active.reader.collect_aborted(0, 1000)

    assert [entry[:4] for entry in entries] == [(1, 0, 29, 8), (2, 8, 74, 36)]


@pytest.mark.parametrize("embedded", [True, False])
def test_a_follower_gets_the_same_index_from_the_same_batches(embedded: bool) -> None:
    leader = Machine().open()
    Script(leader).worked_example()
    follower = Machine().open(embedded=embedded)

    follower.append_as_follower(leader.read(0, 1 << 20).records, leader_epoch=0)

    entries, _ = follower.segments.active.reader.collect_aborted(0, 1000)
    assert [entry[:4] for entry in entries] == [(1, 0, 29, 8), (2, 8, 74, 36)]
    assert follower.last_stable_offset == (90 if embedded else 0)


def test_open_transactions_survive_a_restart_and_a_truncation_to_the_end() -> None:
    machine = Machine()
    log = machine.open()
    script = Script(log)
    script.plain(1)
    script.transact(1, 2)
    log.truncate_to(log.log_end_offset)

    log = machine.reopen(log)

    assert log.last_stable_offset == 1
    append_marker(log, 1, COMMIT)
    assert log.last_stable_offset == 4


def test_a_failing_transaction_index_stops_the_log_with_its_data_in_place() -> None:
    rehearsal, log = (Machine().open() for _ in range(2))
    for each in (rehearsal, log):
        Script(each).transact(1, 2)
    started = disk_of(rehearsal).steps
    append_marker(rehearsal, 1, ABORT)
    steps = disk_of(rehearsal).steps - started  # the last one writes the index
    disk_of(log).fail_at(disk_of(log).steps + steps)

    with pytest.raises(DiskError):
        append_marker(log, 1, ABORT)

    assert log.log_end_offset == 3
    assert log.last_stable_offset == 0
    with pytest.raises(DiskError, match="has failed before"):
        log.read(0, 100)


def test_the_last_stable_offset_is_not_above_the_high_watermark_though_a_transaction_began_there() -> None:
    log = Machine().open(embedded=False)
    for value in (b"a", b"b", b"c"):
        log.append_as_leader(batch(value), leader_epoch=0)
    log.append_as_leader(produced(1, 0, b"open", transactional=True), leader_epoch=0)

    log.update_high_watermark(1)

    assert log.last_stable_offset == 1
    assert b"b" not in log.read(0, 1000, isolation=COMMITTED).records
