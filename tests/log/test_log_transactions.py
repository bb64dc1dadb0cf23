"""Transactions in a log: the last stable offset, the aborted index, and readers of committed records."""

from __future__ import annotations

import pytest

from stratalog.errors import (
    DiskError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    TransactionCoordinatorFencedError,
    UsageError,
)
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.api.consume import consume
from stratalog.log.log import Log
from stratalog.log.origin import AppendOrigin
from stratalog.log.reader import LogReader
from stratalog.log.reading import AbortedTransaction, Isolation
from stratalog.records.control import ControlType
from tests.log.model import Machine, append_marker, batch, marker, produced

ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT
COMMITTED = Isolation.TXN_COMMITTED


class Script:
    """A log, and how far each producer has come."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.sequences: dict[int, int] = {}

    def transact(self, producer_id: int, count: int) -> None:
        sequence = self.sequences.get(producer_id, 0)
        values = [b"%d" % producer_id] * count
        self.log.append_as_leader(
            produced(producer_id, sequence, *values, transactional=True), leader_epoch=0
        )
        self.sequences[producer_id] = sequence + count

    def plain(self, count: int) -> None:
        self.log.append_as_leader(batch(*[b"plain"] * count), leader_epoch=0)

    def worked_example(self) -> None:
        """Four producers whose transactions overlap; Kafka's index of it is in its own tests."""
        self.transact(1, 5)
        self.plain(3)
        self.transact(2, 2)
        self.transact(1, 4)
        self.transact(3, 3)
        self.plain(2)
        self.transact(1, 10)
        assert append_marker(self.log, 1, ABORT) == 29
        self.transact(2, 6)
        self.transact(4, 3)
        self.plain(10)
        self.transact(3, 9)
        assert append_marker(self.log, 3, COMMIT) == 58
        self.transact(4, 8)
        self.transact(2, 7)
        assert append_marker(self.log, 2, ABORT) == 74
        self.plain(10)
        self.transact(4, 4)
        assert append_marker(self.log, 4, COMMIT) == 89


def disk_of(log: Log) -> SimulatedDisk:
    disk = log._folder.disk
    assert isinstance(disk, SimulatedDisk)
    return disk


def values(log: Log, start: int = 0) -> list[tuple[int, bytes | None]]:
    return [(r.offset, r.value) for r in consume(log, start, log.log_end_offset, COMMITTED)]


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


def test_a_reader_of_committed_records_ends_at_the_first_open_transaction() -> None:
    log = Machine().open()
    script = Script(log)
    script.plain(2)
    script.transact(1, 3)
    script.plain(2)

    assert [offset for offset, _ in values(log)] == [0, 1]
    append_marker(log, 1, COMMIT)
    assert [offset for offset, _ in values(log)] == [0, 1, 2, 3, 4, 5, 6]


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


def test_a_read_tells_which_transactions_in_it_were_aborted() -> None:
    log = Machine().open()
    Script(log).worked_example()

    assert log.read(0, 1 << 20, isolation=COMMITTED).aborted_transactions == [
        AbortedTransaction(1, 0),
        AbortedTransaction(2, 8),
    ]
    assert log.read(30, 1 << 20, isolation=COMMITTED).aborted_transactions == [AbortedTransaction(2, 8)]
    assert log.read(90, 100, isolation=COMMITTED).aborted_transactions == []
    assert log.read(0, 1 << 20).aborted_transactions is None


@pytest.mark.parametrize("start", [0, 3, 9, 30, 60])
def test_a_reader_of_committed_records_sees_none_of_an_aborted_transaction(start: int) -> None:
    log = Machine(internal_segment_bytes=800, index_interval_bytes=1).open()
    Script(log).worked_example()

    found = values(log, start)

    plain = [*range(5, 8), *range(17, 19), *range(39, 49), *range(75, 85)]
    assert [offset for offset, value in found if value == b"plain"] == [o for o in plain if o >= start]
    assert not {b"1", b"2"} & {value for _, value in found}
    assert [offset for offset, _ in found] == sorted({offset for offset, _ in found})


def test_a_transaction_over_several_segments_is_aborted_in_each() -> None:
    machine = Machine()
    log = machine.open()
    script = Script(log)
    script.transact(1, 3)
    log.roll()
    script.transact(1, 2)
    log.roll()
    append_marker(log, 1, ABORT)

    assert [segment.reader.collect_aborted(0, 100)[0] != [] for segment in log.segments] == [
        False,
        False,
        True,
    ]
    for start in (0, 3):
        fetched = log.read(start, 1 << 20, isolation=COMMITTED)
        assert fetched.aborted_transactions == [AbortedTransaction(1, 0)]
    assert values(log) == []


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


def test_a_coordinator_that_was_replaced_is_fenced() -> None:
    log = Machine().open()
    script = Script(log)
    script.transact(1, 1)
    append_marker(log, 1, ABORT, coordinator_epoch=1)
    script.transact(1, 1)

    with pytest.raises(TransactionCoordinatorFencedError):
        append_marker(log, 1, ABORT, coordinator_epoch=0)


def test_a_coordinator_is_fenced_also_by_a_transaction_without_records() -> None:
    log = Machine().open()
    append_marker(log, 1, COMMIT, coordinator_epoch=5)

    with pytest.raises(TransactionCoordinatorFencedError):
        append_marker(log, 1, COMMIT, coordinator_epoch=4)


def test_a_marker_of_an_old_producer_epoch_is_refused() -> None:
    log = Machine().open()
    log.append_as_leader(produced(1, 0, b"a", epoch=5, transactional=True), leader_epoch=0)

    with pytest.raises(InvalidProducerEpochError):
        append_marker(log, 1, ABORT, epoch=4)


def test_a_leader_must_know_the_transaction_version_of_a_marker() -> None:
    log = Machine().open()
    Script(log).transact(1, 1)

    with pytest.raises(UsageError):
        log.append_as_leader(marker(1, COMMIT), leader_epoch=0, origin=AppendOrigin.COORDINATOR)


def test_a_follower_needs_no_transaction_version() -> None:
    log = Machine().open()
    Script(log).transact(1, 1)

    log.append_as_follower(marker(1, COMMIT, base_offset=1), leader_epoch=0)

    assert log.last_stable_offset == 2


def test_a_marker_of_transactions_v2_brings_the_next_epoch() -> None:
    log = Machine().open()
    Script(log).transact(1, 1)

    log.append_as_leader(
        marker(1, COMMIT, epoch=1), leader_epoch=0, origin=AppendOrigin.COORDINATOR, transaction_version=2
    )

    assert log.last_stable_offset == 2
    entry = log.producers.last_entry(1)
    assert entry is not None
    assert (entry.producer_epoch, entry.last_sequence) == (1, -1)


def test_a_plain_batch_of_a_producer_with_an_open_transaction_is_refused() -> None:
    log = Machine().open()
    Script(log).transact(1, 1)

    with pytest.raises(InvalidTxnStateError):
        log.append_as_leader(produced(1, 1, b"b"), leader_epoch=0)


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


def test_a_transaction_that_is_aborted_while_a_read_begins_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"plain"), leader_epoch=0)
    real = LogReader._resolve_high_watermark

    def aborted_meanwhile(reader: LogReader) -> None:
        monkeypatch.undo()
        log.append_as_leader(produced(1, 0, b"aborted", transactional=True), leader_epoch=0)
        append_marker(log, 1, ABORT)
        real(reader)

    monkeypatch.setattr(LogReader, "_resolve_high_watermark", aborted_meanwhile)
    found = log.read(0, 1000, isolation=COMMITTED)

    assert b"aborted" in found.records
    assert found.aborted_transactions == [AbortedTransaction(1, 1)]


def test_the_last_stable_offset_is_not_above_the_high_watermark_though_a_transaction_began_there() -> None:
    log = Machine().open(embedded=False)
    for value in (b"a", b"b", b"c"):
        log.append_as_leader(batch(value), leader_epoch=0)
    log.append_as_leader(produced(1, 0, b"open", transactional=True), leader_epoch=0)

    log.update_high_watermark(1)

    assert log.last_stable_offset == 1
    assert b"b" not in log.read(0, 1000, isolation=COMMITTED).records
