"""Indexes that are missing, padded, or cannot be their segment's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.log.recovery.facts import FindingKind
from stratalog.records.control import ControlType
from tests.log.model import marker, produced
from tests.log.recovery.directory import ONE, Directory, comparable, scanned
from tests.operations.audit.planting import batches


def test_a_missing_index_is_built_anew(orders: Directory) -> None:
    before = orders.contents()
    orders.delete(5, ".index")

    plan = orders.recover(clean=True)

    assert orders.contents() == before
    assert [finding.kind for finding in plan.findings][:1] == [FindingKind.MISSING_INDEX]


def test_a_missing_time_index_is_built_anew_where_kafka_leaves_it_empty(orders: Directory) -> None:
    before = orders.contents()
    orders.delete(0, ".timeindex")

    plan = orders.recover(clean=True)

    assert orders.contents() == before
    assert plan.scanned_bytes == 5 * ONE


def test_indexes_without_their_log_go_and_the_gap_stays(orders: Directory) -> None:
    orders.delete(5, ".log")

    plan = orders.recover(clean=True)

    assert orders.offsets("index") == [0, 0, 10, 10]
    assert orders.offsets(".snapshot") == [10, 13]
    assert (plan.log_end_offset, plan.segments_count) == (13, 2)


def test_a_padded_active_segment_is_as_a_clean_stop_leaves_it(orders: Directory) -> None:
    before = orders.contents()
    orders.write(10, ".index", bytes(8000))
    orders.write(10, ".timeindex", bytes(12000))
    orders.delete(13, ".snapshot")

    orders.recover(recovery_point=5)

    assert orders.contents() == before


def test_padded_indexes_below_the_recovery_point_are_cut(orders: Directory) -> None:
    before = orders.contents()
    orders.append(0, ".index", bytes(800))
    orders.append(5, ".timeindex", bytes(1200))

    plan = orders.recover(recovery_point=13)

    assert orders.contents() == before
    assert [finding.kind for finding in plan.findings] == [FindingKind.PADDED_INDEX] * 2


def test_a_transaction_index_that_cannot_be_its_own_is_built_anew(tmp_path: Path) -> None:
    orders = Directory(tmp_path / "data", internal_segment_bytes=1000)
    log = orders.open()
    for number in range(12):
        log.append_as_follower(
            produced(1, number, b"x", transactional=True, base_offset=2 * number), leader_epoch=0
        )
        log.append_as_follower(marker(1, ControlType.ABORT, base_offset=2 * number + 1), leader_epoch=0)
    log.close()
    before = orders.contents()
    base = orders.offsets(".log")[1]
    orders.write(base, ".txnindex", bytes(34))

    orders.recover(clean=True)

    assert comparable(orders.contents()) == comparable(before)


def test_an_index_that_points_behind_its_log_is_built_anew(pairs: Directory) -> None:
    before = pairs.contents()
    pairs.write(2, ".index", (1).to_bytes(4, "big") + (5000).to_bytes(4, "big"))

    assert scanned(pairs, 9) == [2, 8]

    pairs.recover(recovery_point=9)
    assert pairs.contents() == before


def test_a_padded_offset_index_alone_is_cut_without_a_scan(pairs: Directory) -> None:
    pairs.append(2, ".index", bytes(80))

    assert scanned(pairs, 9) == [8]


@pytest.fixture
def aborted(tmp_path: Path) -> Directory:
    """Three segments of transactions that were aborted, and a fourth one."""
    orders = Directory(tmp_path / "data", internal_segment_bytes=1000)
    log = orders.open()
    for number in range(12):
        log.append_as_follower(
            produced(1, number, b"x", transactional=True, base_offset=2 * number), leader_epoch=0
        )
        log.append_as_follower(marker(1, ControlType.ABORT, base_offset=2 * number + 1), leader_epoch=0)
    log.close()
    return orders


@pytest.mark.parametrize("torn_size", [15, 34 + 15])
@pytest.mark.parametrize("number", [0, -1])
def test_a_torn_transaction_index_passed_as_whole_and_readers_saw_aborted_records(
    aborted: Directory, number: int, torn_size: int
) -> None:
    before = aborted.contents()
    base = aborted.offsets(".log")[number]
    data = aborted.file(base, ".txnindex").read_bytes()
    aborted.write(base, ".txnindex", data[:torn_size])

    plan = aborted.recover(recovery_point=24)

    assert comparable(aborted.contents()) == comparable(before)
    assert [(finding.kind, finding.file[20:]) for finding in plan.findings] == [
        (FindingKind.CORRUPT_INDEX, ".txnindex")
    ]
    assert "only 15 of 34 bytes" in plan.findings[0].words
    assert aborted.recover(recovery_point=24).steps == ()


def test_a_torn_transaction_index_does_not_save_segments_after_damage(aborted: Directory) -> None:
    """A broker does not recover the segment in its load pass because of it."""
    base = aborted.offsets(".log")[1]
    aborted.append(base, ".txnindex", b"torn")
    aborted.flip(base, 100)

    aborted.recover()

    assert aborted.offsets(".log")[-1] == base


@pytest.mark.parametrize(
    ("damaged", "file_size", "kept_count"),
    [
        (1, -19, -1),  # the last entry is torn, and its marker is after the damage
        (1, 34 + 15, 1),
        (1, 15, 0),
        (-2, -19, -1),  # that of the damaged marker is torn
        (-2, 34 + 15, -1),  # the log shows the missing ones
        (-2, 15, -1),
    ],
)
def test_aborts_after_damage_that_stays_are_kept_if_the_transaction_index_is_torn(
    aborted: Directory, damaged: int, file_size: int, kept_count: int
) -> None:
    base = aborted.offsets(".log")[0]
    whole = aborted.file(base, ".txnindex").read_bytes()
    places = [*batches(aborted.file(base, ".log").read_bytes())]
    aborted.flip(base, places[damaged][0] + 70)
    aborted.write(base, ".txnindex", whole[:file_size])

    plan = aborted.recover(recovery_point=24)

    found = aborted.file(base, ".txnindex").read_bytes()
    assert len(whole) // 34 >= 3
    assert found == (whole[: 34 * kept_count] if kept_count >= 0 else whole[:-34])
    assert not plan.cuts
    assert FindingKind.CORRUPT_INDEX in [finding.kind for finding in plan.findings]
    assert not [step for step in aborted.recover(recovery_point=24).steps if "txnindex" in str(step)]


def test_a_torn_transaction_index_with_entries_of_another_segment_is_rebuilt(aborted: Directory) -> None:
    before = aborted.contents()
    base = aborted.offsets(".log")[1]
    aborted.write(base, ".txnindex", bytes(34 + 5))

    aborted.recover(recovery_point=24)

    assert comparable(aborted.contents()) == comparable(before)
