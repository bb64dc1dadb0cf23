"""Batches that are found after damage, in files of many chunks."""

from __future__ import annotations

from tests.log.recovery.damaged import BASE, JUNK, NESTED, Piece, batch, salvaged


def test_a_batch_larger_than_a_chunk_is_found_and_kept() -> None:
    pieces = [batch(BASE), Piece(b"\xff" * 99), batch(BASE + 1, size=1_200_000), batch(BASE + 2)]

    found, salvage = salvaged(pieces, 1)
    assert found == pieces[0].data + pieces[2].data + pieces[3].data
    assert salvage.batches_count == 2


def test_small_batches_over_many_chunks_are_kept() -> None:
    run = [batch(BASE + number, size=7_000) for number in range(200)]
    pieces = [*run[:50], Piece(b"\xff" * 1_100_000), *run[50:120], run[120].damaged(), *run[121:]]

    found, _ = salvaged(pieces, 50)
    assert found == b"".join(piece.data for piece in pieces if piece.kind != JUNK)


def test_files_that_carry_batches_as_values_keep_their_own() -> None:
    pieces = [batch(BASE), Piece(NESTED).damaged(-20), batch(BASE + 20)]

    found, _ = salvaged(pieces, 1)
    assert found == pieces[0].data + pieces[2].data
