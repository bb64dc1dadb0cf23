"""Transactions that were open at a gap."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.records.control import ControlType
from tests.log.model import batch, marker, produced, read_all
from tests.log.recovery.damaged import in_transactions, salvaged, survivors
from tests.log.recovery.directory import ONE, Directory


def test_a_transaction_open_at_a_gap_is_left_out_of_the_segments_behind_it_too(tmp_path: Path) -> None:
    orders = Directory(tmp_path / "data", internal_segment_bytes=3 * ONE + 60)
    log = orders.open()

    def write(offset: int, data: bytes) -> None:
        log.append_as_follower(data, leader_epoch=0)
        assert log.log_end_offset == offset + 1

    write(0, produced(1, 0, b"x", transactional=True, base_offset=0))
    write(1, batch(b"x", base_offset=1))
    write(2, batch(b"x", base_offset=2))
    log.roll()
    write(3, produced(1, 1, b"x", transactional=True, base_offset=3))
    write(4, produced(2, 0, b"x", transactional=True, base_offset=4))
    log.roll()
    write(5, marker(1, ControlType.COMMIT, base_offset=5))
    write(6, produced(1, 2, b"x", transactional=True, base_offset=6))
    log.close()
    orders.flip(0, 2 * ONE - 1)

    plan = orders.recover(salvage=True)

    # A transaction that began before the gap is gone everywhere, and its commit ends nothing; later ones
    # stay.
    assert [record.offset for record in read_all(orders.open())] == [2, 4, 5, 6]
    assert plan.log_end_offset == 7


def test_transactions_open_at_a_gap_stay_if_asked_for(tmp_path: Path) -> None:
    orders = Directory(tmp_path / "data")
    log = orders.open()
    log.append_as_follower(produced(1, 0, b"x", transactional=True, base_offset=0), leader_epoch=0)
    log.append_as_follower(batch(b"x", base_offset=1), leader_epoch=0)
    log.append_as_follower(marker(1, ControlType.COMMIT, base_offset=2), leader_epoch=0)
    log.close()
    orders.flip(0, 2 * ONE - 1)

    orders.recover(salvage=True, keep_open_transactions=True)

    assert [record.offset for record in read_all(orders.open())] == [0, 2]


@pytest.mark.parametrize(
    ("words", "survive"),
    [
        # The commit would commit the part in the earlier segment; an abort may stay.
        (". # 1 1c .", ". ."),
        (". # 1 1a .", ". 1a ."),
        (". # 1 1c 1 1c 1 1a 1 1c", ". 1a 1 1c"),
        ("1 # 1 1c 2 2c", "2 2c"),
        (". # 1", "."),
        (". # . 1", ". ."),
    ],
)
def test_a_transaction_from_an_earlier_segment_is_not_committed_by_what_is_kept(
    words: str, survive: str
) -> None:
    pieces = in_transactions(*words.split())
    first_bad = words.split().index("#")

    found, _ = salvaged(pieces, first_bad, from_before=[1])
    expected = survivors(pieces, first_bad, from_before=[1])
    assert found == b"".join(pieces[number].data for number in expected)
    assert [words.split()[number] for number in expected] == survive.split()


def test_producers_whose_transaction_stays_open_are_named() -> None:
    _, salvage = salvaged(in_transactions("1", "2", "#", ".", "2", "2a"), 2)
    assert salvage.in_doubt == {1: False}


def test_a_transaction_open_at_damage_to_the_end_is_in_doubt_for_the_next_segment() -> None:
    pieces = in_transactions("#", ".", "1", "#")

    found, salvage = salvaged(pieces, 0, is_followed=True)
    assert found == pieces[1].data
    assert salvage.in_doubt == {1: False}
