"""Places are kept up to a limit, and counted beyond it."""

from __future__ import annotations

from stratalog.operations.audit.kinds import AuditKind
from stratalog.operations.audit.spots import MOST_PLACES, Spot, Spots


def test_a_hundred_places_of_a_kind_are_twenty_of_which_the_last_counts_the_rest() -> None:
    spots = Spots()
    for number in range(100):
        spots.add(Spot(AuditKind.WRONG_CRC, "0.log", "bad", position=number))

    found = spots.result()

    assert len(found) == MOST_PLACES
    assert sum(spot.times for spot in found) == 100
    assert [spot.position for spot in found] == list(range(MOST_PLACES))


def test_kinds_and_files_are_counted_apart() -> None:
    spots = Spots()
    for file in ("a.log", "b.log"):
        for _ in range(MOST_PLACES):
            spots.add(Spot(AuditKind.WRONG_CRC, file, "bad"))
    spots.add(Spot(AuditKind.ZEROS, "a.log", "zeros"))

    assert all(spot.times == 1 for spot in spots.result())
    assert len(spots.result()) == 2 * MOST_PLACES + 1
