"""What is kept of a damaged segment, against a plain list of batches of which some are damaged."""

from __future__ import annotations

import random

import numpy as np
import pytest

from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.log.recovery.inventory import take_inventory
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.log.recovery.salvage import (
    DAMAGED,
    OPEN_TRANSACTION,
    Salvage,
    find_readable,
    kept_reader,
    rewrite_steps,
)
from stratalog.log.recovery.steps import apply_steps
from tests import naive, profile
from tests.log.recovery.damaged import (
    ABORT,
    BASE,
    COMMIT,
    CONTROL,
    DIRECTORY,
    JUNK,
    LOG,
    NAME,
    NESTED,
    NEXT_BASE,
    PLAIN,
    ROOT,
    TRANSACTIONAL,
    TXN,
    Piece,
    batch,
    in_transactions,
    salvaged,
    survivors,
)

PLAINS = [batch(BASE + 3 * number, count=3) for number in range(8)]
STALE = batch(BASE + 500, epoch=3)
OLD = naive.encode_message(naive.Record(BASE + 12, 5, b"k", b"v"), magic=1)
BAD_MARKER = naive.encode_batch(
    [naive.Record(BASE + 12, 5, b"\0\0\0\x05", b"\0\0\0\0\0\0")],
    attributes=TRANSACTIONAL | CONTROL,
    producer_id=4,
    producer_epoch=0,
    partition_leader_epoch=3,
)


def with_damage(number: int, *pieces: Piece | bytes) -> tuple[list[Piece], int]:
    """The plain batches with these in the place of one."""
    put = [piece if isinstance(piece, Piece) else Piece(piece) for piece in pieces]
    return [*PLAINS[:number], *put, *PLAINS[number + 1 :]], number


# Each with how many batches survive in all, said by hand, so that the model is held to something too.
DAMAGES: dict[str, tuple[tuple[list[Piece], int], int]] = {
    "a flipped bit in the first batch": (with_damage(0, PLAINS[0].damaged()), 7),
    "a flipped bit in the middle": (with_damage(3, PLAINS[3].damaged()), 7),
    "a flipped bit in the last batch": (with_damage(7, PLAINS[7].damaged()), 7),
    "a damaged checksum": (with_damage(3, PLAINS[3].damaged(18)), 7),
    "a damaged magic": (with_damage(3, PLAINS[3].damaged(16)), 7),
    "a length that is too large": (with_damage(3, PLAINS[3].damaged(8)), 7),
    "a length that is a little too large": (with_damage(3, PLAINS[3].damaged(11)), 7),
    "a length below any batch's": (with_damage(3, PLAINS[3].data[:8] + bytes(4) + PLAINS[3].data[12:]), 7),
    "a batch of zeros": (with_damage(3, bytes(len(PLAINS[3].data))), 7),
    "zeros that begin inside a batch": (with_damage(3, PLAINS[3].data[:40] + bytes(5000)), 7),
    "a hole": (with_damage(3, PLAINS[3].data[:50]), 7),
    "bytes between two batches": (with_damage(3, b"\x02" * 3, PLAINS[3]), 8),
    "a megabyte of foreign bytes": (with_damage(3, random.Random(3).randbytes(1_300_000)), 7),
    "only foreign bytes to the end": (([*PLAINS[:3], Piece(random.Random(4).randbytes(3000))], 3), 3),
    "a torn last batch": (([*PLAINS[:7], Piece(PLAINS[7].data[:-1])], 7), 7),
    "a torn batch that another run wrote over": (
        ([*PLAINS[:3], Piece(PLAINS[3].data[:70]), *PLAINS[4:]], 3),
        7,
    ),
    "two damaged batches": (
        ([*PLAINS[:2], PLAINS[2].damaged(), *PLAINS[3:5], PLAINS[5].damaged(), *PLAINS[6:]], 2),
        6,
    ),
    "neighbours damaged": (([*PLAINS[:2], PLAINS[2].damaged(), PLAINS[3].damaged(), *PLAINS[4:]], 2), 6),
    "every other batch damaged": (
        ([piece.damaged() if number % 2 else piece for number, piece in enumerate(PLAINS)], 1),
        4,
    ),
    "all but the last damaged": (([*(piece.damaged() for piece in PLAINS[:7]), PLAINS[7]], 0), 1),
    "a stale batch of an earlier offset": (with_damage(3, PLAINS[3].damaged(), PLAINS[1]), 7),
    "a stale batch twice": (with_damage(3, PLAINS[3].damaged(), PLAINS[2], PLAINS[2]), 7),
    "a stale batch that overlaps the last one kept": (
        with_damage(3, PLAINS[3].damaged(), PLAINS[5].moved(BASE + 8)),
        7,
    ),
    "a stale batch of an older epoch": (with_damage(3, PLAINS[3].damaged(), PLAINS[3].aged(2)), 7),
    "a stale batch behind the next segment's base": (
        with_damage(3, PLAINS[3].damaged(), STALE.moved(NEXT_BASE)),
        7,
    ),
    "a stale batch that reaches over the next segment's base": (
        with_damage(3, PLAINS[3].damaged(), PLAINS[4].moved(NEXT_BASE - 2)),
        7,
    ),
    "a stale batch that fits hides those below it": (with_damage(3, PLAINS[3].damaged(), STALE), 4),
    "a newer epoch hides those of the older one": (
        with_damage(3, PLAINS[3].damaged(), PLAINS[3].aged(9)),
        4,
    ),
    "a message of the old format": (with_damage(3, PLAINS[3].damaged(), OLD), 7),
    "a batch inside a damaged one": (with_damage(3, Piece(NESTED).damaged(20)), 7),
    "a control batch that is no marker": (with_damage(4, PLAINS[4].damaged(), BAD_MARKER), 7),
    "offsets that go back without any damage": (
        ([*PLAINS[:3], PLAINS[1], *PLAINS[3:]], 3),
        8,
    ),
    "no bytes at all behind the good ones": ((PLAINS, 8), 8),
    "a damaged transaction's batch": ((in_transactions(".", "1", "#", "1", "1c", "."), 2), 3),
    "a transaction before the damage is whole": ((in_transactions("1", "1c", "#", ".", "."), 2), 4),
    "a transaction behind the damage is whole": ((in_transactions(".", "#", "1", "1", "1c"), 1), 4),
    "one is open, another is not": ((in_transactions("1", "2", "2c", "#", "1", "1a", "2", "2c"), 3), 5),
    "open at the second gap only": ((in_transactions("#", "1", "#", "1", "1c", "1", "1c"), 0), 3),
    "open to the end": ((in_transactions("1", "#", ".", "1"), 1), 1),
    "open without a batch behind": ((in_transactions(".", "1", "#", "."), 2), 2),
    "nothing is gained": ((in_transactions("1", "#", "1"), 1), 1),
}


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("keep_open", [False, True])
def test_exactly_what_may_survive_does(name: str, keep_open: bool) -> None:
    (pieces, first_bad), count = DAMAGES[name]
    expected = survivors(pieces, first_bad, keep_open=keep_open)
    if not keep_open:
        assert len(expected) == count

    found, salvage = salvaged(pieces, first_bad, keep_open=keep_open)
    assert found == b"".join(pieces[number].data for number in expected)
    assert salvage.batches_count == sum(number >= first_bad for number in expected)


def test_there_are_thirty_damages_and_more() -> None:
    assert len(DAMAGES) > 30


@pytest.mark.parametrize("seed", range(profile.examples(2000, quick=150)))
def test_random_damages(seed: int) -> None:
    choice = random.Random(seed)
    pieces: list[Piece] = []
    offset, epoch = BASE, 0
    for _ in range(choice.randint(1, 25)):
        epoch += choice.random() < 0.1
        kind = choice.choice([PLAIN, PLAIN, TXN, TXN, COMMIT, ABORT])
        producer_id = -1 if kind == PLAIN else choice.randint(1, 3)
        count = 1 if kind in (COMMIT, ABORT) else choice.randint(1, 3)
        pieces.append(
            batch(offset, kind, producer_id, count=count, epoch=epoch, size=choice.choice([0, 30, 3000]))
        )
        offset += count + (choice.random() < 0.2)
    first_bad = choice.randint(0, len(pieces) - 1)
    number = first_bad
    while number < len(pieces):
        match choice.randint(0, 9):
            case 0 | 1:
                pieces[number] = pieces[number].damaged(choice.randint(17, len(pieces[number].data) - 1))
            case 2:
                # By more than the zeros it may end with, which the next piece may begin with.
                size = max(1, len(pieces[number].data) - choice.randint(20, 60))
                pieces[number] = Piece(pieces[number].data[:size])
            case 3:
                pieces[number] = pieces[number].moved(choice.randint(BASE, offset))
            case 4:
                pieces.insert(number, Piece(bytes(choice.randint(1, 5000))))
            case 5:
                pieces[number] = pieces[number].aged(choice.randint(0, epoch + 1))
        number += 1
    if pieces[first_bad].kind != JUNK:
        pieces.insert(first_bad, Piece(b"\xff" * 20))
    from_before = [1] if choice.random() < 0.3 else []
    next_base = choice.choice([NEXT_BASE, offset, offset - 2])
    is_followed = seed % 2 == 0

    found, salvage = salvaged(
        pieces, first_bad, next_base=next_base, from_before=from_before, is_followed=is_followed
    )
    expected = survivors(
        pieces, first_bad, next_base=next_base, from_before=from_before, is_followed=is_followed
    )
    assert found == b"".join(pieces[number].data for number in expected)
    assert whole(salvage) == sum(len(piece.data) for piece in pieces)


def whole(salvage: Salvage) -> int:
    """Check that kept and dropped ranges together are the file, each byte once; returns its size."""
    ranges = [*salvage.kept, *((left.position, left.size) for left in salvage.left_out)]
    end = 0
    for position, size in sorted(ranges):
        assert position == end
        assert size > 0
        end += size
    return end


def test_what_is_left_out_is_told_with_its_reason() -> None:
    pieces = in_transactions(".", "1", "#", "1", ".", "1c")
    at = [sum(len(piece.data) for piece in pieces[:number]) for number in range(7)]

    _, salvage = salvaged(pieces, 2)
    assert [(left.position, left.position + left.size, left.reason) for left in salvage.left_out] == [
        (at[1], at[2], OPEN_TRANSACTION),
        (at[2], at[3], DAMAGED),
        (at[3], at[4], OPEN_TRANSACTION),
    ]


def test_what_is_left_out_is_told_with_its_offsets() -> None:
    pieces = [*PLAINS[:2], PLAINS[2].damaged(), *PLAINS[3:5], PLAINS[5].damaged(), PLAINS[6], Piece(b"torn")]

    for is_followed in (False, True):
        _, salvage = salvaged(pieces, 2, is_followed=is_followed)
        assert [(left.first_offset, left.last_offset) for left in salvage.left_out] == [
            (BASE + 6, BASE + 8),
            (BASE + 15, BASE + 17),
            (BASE + 21, NEXT_BASE - 1 if is_followed else None),
        ]


def test_offsets_that_an_open_transaction_loses_are_told_beside_those_of_the_damage() -> None:
    pieces = in_transactions(".", "1", "#", "1", ".", "1c")

    _, salvage = salvaged(pieces, 2)
    told = [(left.reason, left.first_offset, left.last_offset) for left in salvage.left_out]
    assert told == [
        (OPEN_TRANSACTION, pieces[1].offset, pieces[1].last_offset),
        (DAMAGED, pieces[1].last_offset + 1, pieces[3].offset - 1),
        (OPEN_TRANSACTION, pieces[3].offset, pieces[3].last_offset),
    ]


def test_the_file_can_be_read_as_it_will_be() -> None:
    data = bytes(range(250)) * 10
    disk = SimulatedDisk.of({LOG: data})
    ranges = ((3, 10), (100, 1), (500, 1500))
    expected = b"".join(data[at : at + size] for at, size in ranges)

    with disk.open_read(LOG) as file:
        read_into, size = kept_reader(disk, file, ranges)
        assert size == len(expected)
        for position in (0, 5, 9, 10, 11, 700, size - 1, size, size + 5):
            buffer = np.zeros(600, np.uint8)
            got = read_into(buffer, position)
            assert buffer[:got].tobytes() == expected[position : position + 600]


def rewritten(disk: SimulatedDisk, pieces: list[Piece], first_bad: int) -> None:
    """As a run does it: inventory first, then, if there is damage still, salvage."""
    inventory = take_inventory(disk, DIRECTORY)
    apply_steps(disk, DIRECTORY, inventory.steps, None)
    (files,) = take_inventory(disk, DIRECTORY).segments
    if files.log.size != sum(len(piece.data) for piece in pieces):
        return
    data = disk.contents()[LOG]
    start = sum(len(piece.data) for piece in pieces[:first_bad])
    salvage = find_readable(
        disk,
        LOG,
        start,
        len(data),
        last_offset=pieces[first_bad - 1].last_offset,
        last_epoch=3,
        next_base=NEXT_BASE,
    )
    apply_steps(disk, DIRECTORY, rewrite_steps(files, salvage), Quarantine(disk, ROOT))


def test_a_power_cut_anywhere_in_the_rewriting_comes_to_the_same() -> None:
    pieces, first_bad = DAMAGES["two damaged batches"][0]
    data = b"".join(piece.data for piece in pieces)
    kept = b"".join(piece.data for piece in pieces if piece.kind != JUNK)
    before = {LOG: data, f"{DIRECTORY}/{BASE:020d}.index": b"12345678"}
    counting = SimulatedDisk.of(before)
    rewritten(counting, pieces, first_bad)
    assert counting.contents()[LOG] == kept
    for step in range(1, counting.steps + 1):
        disk = SimulatedDisk.of(before)
        disk.crash_at(step)
        with pytest.raises(PowerCut):
            rewritten(disk, pieces, first_bad)
        for found in disk.crash():
            rewritten(found, pieces, first_bad)
            assert found.contents()[LOG] == kept, step
            entries = Quarantine(found, ROOT).entries()
            assert sorted((entry.file, entry.size) for entry in entries) == [
                (NAME, len(PLAINS[2].data)),
                (NAME, len(PLAINS[5].data)),
            ], step
