"""Entries of indexes against batches, in one run and across two."""

from __future__ import annotations

import numpy as np
import pytest

from stratalog.operations.audit.index_entries import OffsetEntries, TimeEntries
from stratalog.operations.audit.kinds import AuditKind
from stratalog.operations.audit.spots import Spot, Spots
from stratalog.records.kernels.walk import BATCH, BatchTable


def rows(*batches: tuple[int, int, int, int]) -> BatchTable:
    """(position, base offset, last offset, largest timestamp) of each."""
    made = np.zeros(len(batches), BATCH)
    for number, (position, base, last, time) in enumerate(batches):
        made[number]["position"], made[number]["size"] = position, 100
        made[number]["base_offset"], made[number]["last_offset"] = base, last
        made[number]["max_timestamp"], made[number]["magic"] = time, 2
    return made


BATCHES = rows((0, 0, 9, 50), (100, 10, 19, 70), (200, 20, 29, 60), (300, 30, 39, 90))


def offset_words(*entries: tuple[int, int], parts: int = 1, next_base: int | None = None) -> list[str]:
    return [spot.words for spot in offset_spots(*entries, parts=parts, next_base=next_base)]


def offset_spots(
    *entries: tuple[int, int],
    parts: int = 1,
    next_base: int | None = None,
    damage: tuple[int, int] | None = None,
) -> tuple[Spot, ...]:
    """What is found in these entries; `damage` follows a number of batches, and ends at a byte."""
    spots = Spots()
    offsets, positions = np.array(entries, np.int64).reshape(-1, 2).T
    checked = OffsetEntries("0.index", offsets, positions, spots)
    last = -1
    for part in np.array_split(BATCHES if damage is None else BATCHES[: damage[0]], parts):
        checked.add(part, 0, last)
        last = int(part["last_offset"][-1])
    if damage is not None:
        checked.skip_to(damage[1])
    checked.end(400 if damage is None else damage[1], last, next_base, has_damage=damage is not None)
    return spots.result()


def time_words(*entries: tuple[int, int], parts: int = 1, is_closed: bool = False) -> list[str]:
    return [spot.words for spot in time_spots(*entries, parts=parts, is_closed=is_closed)]


def time_spots(
    *entries: tuple[int, int], parts: int = 1, is_closed: bool = False, next_base: int | None = None
) -> tuple[Spot, ...]:
    spots = Spots()
    times, offsets = np.array(entries, np.int64).reshape(-1, 2).T
    checked = TimeEntries("0.timeindex", times, offsets, spots)
    for part in np.array_split(BATCHES, parts):
        checked.add(part)
    checked.end(39, next_base, is_closed=is_closed)
    return spots.result()


@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize(
    "entries",
    [
        [(19, 100), (39, 300)],  # since 3.9.1: the last offset of the batch
        [(29, 100), (39, 300)],  # before: the last offset of the append that it began
        [(10, 100), (30, 300)],  # before 2.0: the first one
        [],
    ],
)
def test_the_entries_that_releases_write_are_right(entries: list[tuple[int, int]], parts: int) -> None:
    assert offset_words(*entries, parts=parts) == []


@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ((19, 150), "into the middle of a batch"),
        ((9, 100), "have this offset or a later one"),
        ((15, 100), "No batch ends with this offset"),
        ((39, 500), "past the last batch"),
        ((49, 500), "ends at byte 400, with offset 39"),
        ((77, 300), "ends before this offset"),
    ],
)
def test_a_wrong_entry_is_told_apart(entry: tuple[int, int], words: str, parts: int) -> None:
    (found,) = offset_words(entry, parts=parts)

    assert words in found


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_right_times_are_right(parts: int) -> None:
    assert time_words((50, 9), (70, 19), (90, 39), parts=parts, is_closed=True) == []


@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ((60, 29), "An earlier batch has"),
        ((55, 9), "The batch of that offset has"),
        ((99, 99), "The log ends with offset 39"),
    ],
)
def test_a_wrong_time_is_told_apart(entry: tuple[int, int], words: str, parts: int) -> None:
    (found,) = time_words(entry, parts=parts)

    assert words in found


def test_a_closed_segment_has_its_largest_time_last() -> None:
    (found,) = time_words((70, 19), is_closed=True)

    assert found.startswith("Its last entry has")
    assert time_words((70, 19), is_closed=False) == []


def test_entries_into_damage_are_not_judged() -> None:
    spots = Spots()
    checked = OffsetEntries("0.index", np.array([19, 39]), np.array([150, 300]), spots)
    checked.add(BATCHES[:1], 0, -1)
    checked.skip_to(200)
    checked.add(BATCHES[2:], 0, 9)
    checked.end(400, 39, None, has_damage=False)

    assert spots.result() == ()


def test_entries_past_the_end_are_one_finding_that_names_the_last_offset() -> None:
    (found,) = offset_spots((39, 300), (49, 400), (59, 500), (69, 600))

    assert (found.kind, found.offset, found.position) == (AuditKind.INDEX_PAST_END, 69, 24)
    assert "The log ends at byte 400, with offset 39. It is the last of 3 such entries." in found.words


@pytest.mark.parametrize(("entry", "next_base"), [((39, 500), None), ((69, 500), 60), ((69, 350), None)])
def test_an_entry_that_proves_no_lost_records_is_only_wrong(
    entry: tuple[int, int], next_base: int | None
) -> None:
    (found,) = offset_spots(entry, next_base=next_base)

    assert found.kind is AuditKind.INDEX_ENTRY


def test_entries_past_the_end_of_the_file_are_found_beside_a_torn_tail() -> None:
    """Only they are: the others may belong to the torn batch."""
    (found,) = offset_spots((9, 0), (19, 100), (33, 250), (49, 400), damage=(2, 260))

    assert (found.kind, found.offset) == (AuditKind.INDEX_PAST_END, 49)
    assert offset_spots((9, 0), (19, 100), (33, 250), damage=(2, 260)) == ()


@pytest.mark.parametrize(
    ("next_base", "kind"), [(None, AuditKind.TIME_INDEX_PAST_END), (99, AuditKind.TIME_INDEX_ENTRY)]
)
def test_a_time_past_the_end_shows_that_records_are_gone(next_base: int | None, kind: AuditKind) -> None:
    (found,) = time_spots((99, 99), next_base=next_base)

    assert found.kind is kind
