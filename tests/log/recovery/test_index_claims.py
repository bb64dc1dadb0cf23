"""Logs that end before records that their indexes name."""

from __future__ import annotations

import logging

import pytest

from stratalog.log.recovery.facts import FindingKind
from stratalog.log.recovery.plan import RecoveryPlan
from tests.log.recovery.directory import ONE, Directory


def entry(relative: int, position: int) -> bytes:
    return relative.to_bytes(4, "big") + position.to_bytes(4, "big")


def time_entry(timestamp: int, relative: int) -> bytes:
    return timestamp.to_bytes(8, "big") + relative.to_bytes(4, "big")


def missing(plan: RecoveryPlan) -> list[tuple[str, str]]:
    return [
        (finding.file[16:], finding.words)
        for finding in plan.findings
        if finding.kind is FindingKind.MISSING_RECORDS
    ]


def words(last: int, end: int) -> str:
    return f"Its index shows that it had records up to offset {last}; it ends at offset {end}."


@pytest.fixture
def active(orders: Directory) -> Directory:
    """The last segment, of the offsets 10 to 12, as a killed broker leaves it: with preallocated indexes."""
    orders.write(10, ".index", entry(1, ONE) + entry(2, 2 * ONE) + bytes(800))
    orders.write(10, ".timeindex", time_entry(2, 1) + time_entry(3, 2) + bytes(1200))
    return orders


def truncate(orders: Directory, base: int, size: int) -> None:
    orders.write(base, ".log", orders.file(base, ".log").read_bytes()[:size])


@pytest.mark.parametrize("batches_count", [0, 1, 2])
def test_a_log_that_was_cut_at_a_batch_border_was_said_to_have_lost_nothing(
    active: Directory, batches_count: int, caplog: pytest.LogCaptureFixture
) -> None:
    truncate(active, 10, batches_count * ONE)

    with caplog.at_level(logging.WARNING):
        plan = active.recover(recovery_point=10)

    (warning,) = caplog.messages
    assert words(12, 10 + batches_count) in warning
    assert missing(plan) == [("0010.log", words(12, 10 + batches_count))]
    assert plan.misses_records
    assert plan.cuts == ()
    assert not active.recover(recovery_point=10).misses_records  # the indexes were rebuilt


@pytest.mark.parametrize("other", [".index", ".timeindex"])
def test_one_index_is_enough(active: Directory, other: str) -> None:
    truncate(active, 10, ONE)
    active.delete(10, other)

    assert missing(active.recover()) == [("0010.log", words(12, 11))]


def test_a_log_that_is_whole_misses_nothing(active: Directory) -> None:
    assert not active.recover().misses_records


@pytest.mark.parametrize(
    ("index", "time_index"),
    [
        (entry(7, 5000) + entry(6, 6000), b""),
        (entry(7, 5000) + entry(8, 4000), b""),
        (entry(7, 0), b""),
        (b"odd" + entry(7, 5000), b""),
        (entry(7, 5000) + bytes(8) + entry(8, 6000), b""),
        (entry(7, ONE), b""),  # it points into the log, where there is another offset
        (b"", time_entry(7, 2) + time_entry(7, 9)),
        (b"", time_entry(7, 9) + time_entry(8, 8)),
        (b"", time_entry(7, 9) + b"odd"),
    ],
)
def test_an_index_that_contradicts_itself_is_not_believed(
    orders: Directory, index: bytes, time_index: bytes
) -> None:
    orders.write(10, ".index", index)
    orders.write(10, ".timeindex", time_index)

    assert not orders.recover().misses_records


def test_the_index_of_an_empty_log_that_is_a_slot_of_zeros_names_no_record(orders: Directory) -> None:
    orders.write(13, ".log", b"")
    orders.write(13, ".timeindex", bytes(12))

    assert not orders.recover().misses_records


def test_offsets_of_the_next_segment_are_not_believed(orders: Directory) -> None:
    orders.write(0, ".index", entry(5, 5000))
    orders.write(0, ".timeindex", time_entry(7, 5))

    assert not orders.recover().misses_records


@pytest.mark.parametrize("recovery_point", [0, 10])
def test_a_hole_before_the_next_segment_is_told_also_below_the_recovery_point(
    orders: Directory, recovery_point: int
) -> None:
    orders.write(5, ".index", entry(4, 4 * ONE))
    truncate(orders, 5, 2 * ONE)

    assert missing(orders.recover(recovery_point=recovery_point)) == [("0005.log", words(9, 7))]


def test_records_that_are_cut_off_are_not_told_a_second_time(active: Directory) -> None:
    active.flip(10, 2 * ONE - 1)

    plan = active.recover(recovery_point=10)

    assert [cut.first_offset for cut in plan.cuts] == [11]
    assert missing(plan) == []


def test_records_whose_bytes_are_not_even_there_are_told_beside_a_cut(active: Directory) -> None:
    truncate(active, 10, 2 * ONE - 7)

    plan = active.recover(recovery_point=10)

    assert [cut.size for cut in plan.cuts] == [ONE - 7]
    assert missing(plan) == [("0010.log", words(12, 11))]


def test_a_torn_tail_that_is_in_the_index_is_more_than_a_torn_tail(active: Directory) -> None:
    """A broker indexes a batch only when it is written."""
    truncate(active, 10, 3 * ONE - 7)

    plan = active.recover(recovery_point=10)

    assert (missing(plan), plan.is_only_torn_tail) == ([], False)


def test_segments_after_a_cut_are_not_told_a_second_time(active: Directory) -> None:
    active.flip(5, 2 * ONE - 1)
    truncate(active, 10, ONE)

    assert missing(active.recover()) == []


@pytest.mark.parametrize("salvage", [False, True])
def test_salvage_tells_it_too(active: Directory, salvage: bool) -> None:
    truncate(active, 10, ONE)

    assert missing(active.recover(salvage=salvage)) == [("0010.log", words(12, 11))]


def test_a_replacement_that_is_finished_is_compared_with_its_own_index(orders: Directory) -> None:
    orders.write(5, ".index.swap", entry(4, 4 * ONE))
    orders.write(5, ".timeindex.swap", b"")
    orders.write(5, ".log.swap", orders.file(5, ".log").read_bytes()[: 2 * ONE])

    assert missing(orders.recover()) == [("0005.log", words(9, 7))]


def test_the_index_of_what_a_replacement_replaces_is_not_looked_at(orders: Directory) -> None:
    orders.write(5, ".index", entry(4, 4 * ONE))
    orders.write(5, ".log.swap", orders.file(5, ".log").read_bytes()[: 2 * ONE])

    assert not orders.recover().misses_records
