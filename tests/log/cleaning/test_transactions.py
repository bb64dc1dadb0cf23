"""Compaction and transactions: aborted records, markers while they are needed, producers' last batches.

KAFKA-8335, KAFKA-5490, KAFKA-7385, KAFKA-7467: batches and markers that are kept empty. KAFKA-13727,
KAFKA-8351: aborted transactions across rounds and groups. KAFKA-14055: users' keys and markers' keys.
"""

from __future__ import annotations

from stratalog.log.cleaning.transactions import NO_DATA, OpenData, SegmentData
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.producers.rebuild import replay_segment
from stratalog.log.reading import Isolation
from stratalog.records.control import ControlType, build_control_key
from tests.log.cleaning.dirty import NOW, Dirty
from tests.log.model import read_all

ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT


def test_aborted_records_go_and_do_not_count_as_the_last_of_their_key() -> None:
    dirty = Dirty()
    dirty.put((b"a", b"1"))
    dirty.produce(1, (b"a", b"2"), transactional=True)
    dirty.end(1, ABORT)
    dirty.put((b"z", b"1"))
    dirty.produce(1, (b"y", b"1"), transactional=True)  # so that the batch is not its last
    dirty.end(1, COMMIT)
    dirty.roll()

    dirty.clean()

    assert [pair[:2] for pair in dirty.pairs if pair[1] in (b"a", b"y", b"z")] == [
        (0, b"a"),
        (3, b"z"),
        (4, b"y"),
    ]


def test_committed_records_replace_older_ones() -> None:
    dirty = Dirty()
    dirty.put((b"a", b"1"))
    dirty.produce(1, (b"a", b"2"), transactional=True)
    dirty.end(1, COMMIT)
    dirty.roll()

    dirty.clean()

    assert dirty.offsets == [1, 2]


def test_a_commit_marker_stays_with_its_data_then_gets_a_horizon_then_goes() -> None:
    dirty = Dirty(delete_retention_ms=1000)
    dirty.produce(1, (b"a", b"1"), transactional=True)
    dirty.end(1, COMMIT)
    dirty.roll()
    dirty.clean()
    assert dirty.headers()[1].delete_horizon_ms is None

    dirty.produce(2, (b"a", b"2"), transactional=True)
    dirty.end(2, COMMIT)
    dirty.produce(1, (b"b", b"1"), transactional=True)
    dirty.end(1, COMMIT)
    dirty.roll()
    dirty.clean()  # the data goes
    dirty.checkpoint = 0
    dirty.clean()  # the marker is found without data
    first = dirty.headers()[0]
    assert (first.last_offset, first.delete_horizon_ms) == (1, NOW + 1000)

    offsets = []
    for ms in (999, 1):
        dirty.wait(ms)
        dirty.checkpoint = 0
        dirty.clean()
        offsets.append(dirty.offsets)

    assert offsets == [[1, 2, 3, 4, 5], [2, 3, 4, 5]]


def test_an_abort_marker_outlives_the_data_by_a_cleaning() -> None:
    dirty = Dirty(delete_retention_ms=1000)
    dirty.produce(1, (b"a", b"1"), transactional=True)
    dirty.end(1, ABORT)
    dirty.produce(1, (b"b", b"1"), transactional=True)
    dirty.end(1, COMMIT)
    dirty.roll()

    dirty.clean()
    assert dirty.offsets == [1, 2, 3]
    assert [entry.first_offset for entry in dirty.log.segments.first.reader.txn_index.all_aborted()] == [0]
    assert dirty.headers()[0].delete_horizon_ms is None

    dirty.checkpoint = 0
    dirty.clean()
    assert dirty.headers()[0].delete_horizon_ms == NOW + 1000
    assert dirty.log.segments.first.reader.txn_index.all_aborted() == []

    dirty.wait(1000)
    dirty.checkpoint = 0
    dirty.clean()
    assert dirty.offsets == [2, 3]


def test_a_producers_last_batch_stays_as_a_header() -> None:
    dirty = Dirty()
    dirty.produce(1, (b"a", b"1"), (b"b", b"1"))
    dirty.produce(2, (b"a", b"2"), (b"b", b"2"))
    dirty.roll()

    dirty.clean()

    first = dirty.headers()[0]
    assert (first.producer_id, first.records_count, first.base_sequence, first.last_sequence) == (1, 0, 0, 1)
    assert dirty.offsets == [2, 3]


def test_a_header_of_an_older_batch_goes_when_its_producer_has_written_another() -> None:
    dirty = Dirty()
    dirty.produce(1, (b"a", b"1"))
    dirty.put((b"a", b"2"))
    dirty.roll()
    dirty.clean()
    assert [each.records_count for each in dirty.headers()] == [0, 1]

    dirty.produce(1, (b"c", b"1"))
    dirty.roll()
    dirty.clean()

    assert [each.base_offset for each in dirty.headers()] == [1, 2]


def test_the_last_batch_of_an_aborted_transaction_stays_as_a_header_and_its_marker_with_it() -> None:
    dirty = Dirty(delete_retention_ms=0)
    dirty.produce(1, (b"a", b"1"), transactional=True)
    dirty.end(1, ABORT)
    dirty.put((b"b", b"1"))
    dirty.roll()

    for _ in range(3):
        dirty.checkpoint = 0
        dirty.clean()
        dirty.wait(1000)

    assert [(each.base_offset, each.records_count) for each in dirty.headers()] == [(0, 0), (1, 1), (2, 1)]
    assert len(dirty.log.segments.first.reader.txn_index.all_aborted()) == 1


def test_a_producer_known_by_a_marker_only_keeps_that_marker_empty() -> None:
    dirty = Dirty(delete_retention_ms=0)
    dirty.end(1, ABORT, epoch=5)
    dirty.put((b"a", b"1"))
    dirty.roll()

    for _ in range(2):
        dirty.checkpoint = 0
        dirty.clean()
        dirty.wait(1)

    first = dirty.headers()[0]
    assert (first.is_control, first.producer_epoch, first.records_count) == (True, 5, 0)
    dirty.checkpoint = 0
    dirty.clean()  # a control batch without records is read again
    assert dirty.headers()[0] == first


def test_a_users_key_like_a_markers_removes_no_marker() -> None:
    dirty = Dirty()
    dirty.produce(1, (b"a", b"1"), transactional=True)
    dirty.end(1, COMMIT)
    dirty.put((build_control_key(COMMIT), b"user"))
    dirty.put((build_control_key(ABORT), b"user"))
    dirty.roll()

    dirty.clean()

    assert dirty.offsets == [0, 1, 2, 3]


def test_an_aborted_transaction_is_known_in_every_round_that_it_reaches_into() -> None:
    dirty = Dirty()
    dirty.produce(1, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"), transactional=True)
    dirty.roll()
    dirty.produce(1, (b"d", b"1"), (b"e", b"1"), transactional=True)
    dirty.end(1, ABORT)
    dirty.put((b"f", b"1"), (b"g", b"1"), (b"h", b"1"))
    dirty.produce(1, (b"i", b"1"), transactional=True)
    dirty.end(1, COMMIT)
    dirty.roll()
    end = dirty.log.log_end_offset

    while dirty.checkpoint < end:
        dirty.clean(keys=2)
        committed = [record.key for record in read_all(dirty.log, isolation=Isolation.TXN_COMMITTED)]
        assert {b"f", b"g", b"h", b"i"} <= set(committed)

    keys = [pair[1] for pair in dirty.pairs]
    assert not {b"a", b"b", b"c", b"d", b"e"} & set(keys)


def test_an_aborted_transaction_behind_the_end_of_a_full_map_stays_aborted() -> None:
    """KAFKA-13727: its segment is rewritten, and so must its entry be, which the map did not reach."""
    dirty = Dirty()
    dirty.put((b"a", b"1"))
    dirty.put((b"b", b"1"))
    dirty.produce(1, (b"x", b"1"), transactional=True)
    dirty.end(1, ABORT)
    dirty.put((b"c", b"1"))
    dirty.roll()

    dirty.clean(keys=1)

    assert dirty.checkpoint == 1
    assert b"x" not in [pair[1] for pair in dirty.pairs]
    assert [entry.first_offset for entry in dirty.log.segments.first.reader.txn_index.all_aborted()] == [2]


def test_a_marker_goes_although_an_earlier_transaction_of_its_producer_has_data() -> None:
    dirty = Dirty(delete_retention_ms=0)
    for key in (b"a", b"b"):
        dirty.produce(1, (key, b"1"), transactional=True)
        dirty.end(1, COMMIT)
    dirty.put((b"b", b"2"))
    dirty.produce(1, (b"c", b"1"), transactional=True)
    dirty.end(1, COMMIT)
    dirty.roll()

    for _ in range(3):
        dirty.checkpoint = 0
        dirty.clean()
        dirty.wait(1)

    assert dirty.offsets == [0, 1, 4, 5, 6]


def test_a_marker_in_another_group_than_its_data_is_kept() -> None:
    dirty = Dirty(internal_segment_bytes=200)
    dirty.produce(1, (b"a", bytes(100)), transactional=True)
    dirty.roll()
    dirty.put((b"b", bytes(100)))
    dirty.roll()
    dirty.end(1, COMMIT)
    dirty.produce(1, (b"z", b"1"), transactional=True)
    dirty.end(1, COMMIT)
    dirty.roll()

    result = dirty.clean()

    assert len(result.groups) > 1
    assert dirty.offsets == [0, 1, 2, 3, 4]
    assert all(each.delete_horizon_ms is None for each in dirty.headers())


def test_an_aborted_transaction_over_two_groups_leaves_one_entry() -> None:
    dirty = Dirty(internal_segment_bytes=200)
    dirty.produce(1, (b"a", bytes(100)), transactional=True)
    dirty.roll()
    dirty.produce(1, (b"b", bytes(100)), transactional=True)
    dirty.roll()
    dirty.end(1, ABORT)
    dirty.produce(1, (b"z", b"1"), transactional=True)
    dirty.end(1, COMMIT)
    dirty.roll()

    dirty.clean()

    entries = [entry for each in dirty.log.segments for entry in each.reader.txn_index.all_aborted()]
    assert [(entry.producer_id, entry.first_offset) for entry in entries] == [(1, 0)]
    assert dirty.offsets == [2, 3, 4]


def test_a_commit_marker_stays_as_long_as_the_empty_last_batch_of_its_transaction() -> None:
    dirty = Dirty(delete_retention_ms=0)
    dirty.produce(1, (b"a", b"1"), transactional=True)
    dirty.end(1, COMMIT)
    dirty.put((b"a", b"2"))
    dirty.roll()

    found = []
    for _ in range(3):
        dirty.checkpoint = 0
        dirty.clean()
        dirty.wait(1000)
        found.append([(each.base_offset, each.records_count) for each in dirty.headers()])

    assert found == [[(0, 0), (1, 1), (2, 1)]] * 3
    dirty.produce(1, (b"b", b"1"), transactional=True)  # the producer moves on
    dirty.end(1, COMMIT)
    dirty.roll()
    for _ in range(3):
        dirty.checkpoint = 0
        dirty.clean()
        dirty.wait(1000)
    assert dirty.offsets == [2, 3, 4]


def test_a_header_goes_when_its_producer_begins_at_the_same_sequence_again() -> None:
    """As a group coordinator does, which always writes sequence 0."""
    dirty = Dirty()
    for value in (b"1", b"2", b"3"):
        dirty.sequences[1] = 0
        dirty.produce(1, (b"a", value), transactional=True)
        dirty.end(1, COMMIT)
        dirty.put((b"a", value))
        dirty.roll()
        dirty.checkpoint = 0
        dirty.clean()

    data = [each for each in dirty.headers() if each.producer_id == 1 and not each.is_control]
    assert [(each.base_offset, each.records_count) for each in data] == [(6, 0)]


def test_a_transaction_that_is_aborted_as_a_whole_run_is_passed_over() -> None:
    dirty = Dirty()
    dirty.put((b"a", b"1"))
    for _ in range(3):
        dirty.produce(1, (b"a", bytes(1 << 20)), transactional=True)
    dirty.end(1, ABORT)
    dirty.put((b"b", b"1"))
    dirty.roll()

    dirty.clean()

    assert [pair[1] for pair in dirty.pairs if pair[0] != 4] == [b"a", b"b"]


def test_sequences_are_known_from_what_a_cleaning_has_left() -> None:
    """From the batches, not a snapshot: as for a replica that is filled from here."""
    dirty = Dirty()
    for value in (b"1", b"2", b"3"):
        dirty.produce(1, (b"a", value))
    dirty.produce(2, (b"a", b"4"), (b"b", b"1"), transactional=True)
    dirty.end(2, ABORT)
    dirty.put((b"a", b"5"))
    dirty.roll()
    dirty.clean()
    machine = dirty.machine

    found = ProducerStateManager(machine.disk, machine.directory, clock=machine.clock)
    for segment in dirty.log.segments:
        replay_segment(found, segment.reader, segment.base_offset, dirty.log.log_end_offset)

    assert {pid: (entry.last_sequence, entry.last_data_offset) for pid, entry in found.producers.items()} == {
        1: (2, 2),
        2: (1, 4),
    }


def test_what_segments_leave_open_adds_up_to_what_a_scan_of_all_of_them_leaves() -> None:
    """1 has data before its commit, 2 after its abort, 3 in an aborted transaction; 4 and 5 are untouched."""
    before = OpenData(frozenset({1, 4}), frozenset({2, 5}))
    segment = SegmentData(OpenData(frozenset({2}), frozenset({3})), frozenset({1}), frozenset({2}))

    assert segment.after(before) == OpenData(frozenset({2, 4}), frozenset({3, 5}))
    assert segment.after(NO_DATA) == segment.left
