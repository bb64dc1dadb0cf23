"""The note of a move that was cut short."""

from __future__ import annotations

import pytest

from stratalog.directory.pending_move import NOTE, PendingMove, finish_pending_move, note_move
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import SimulatedDisk

ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"version": 0, "topic": "..", "partition": 0, "from": "/"}']
)
def test_a_note_of_a_move_that_says_nothing_touches_no_directory(data: bytes) -> None:
    files = {f"/disk-1/{ORDERS}/x": b"", f"/disk-2/{ORDERS}/x": b""}
    disk = SimulatedDisk.of({**files, f"/disk-2/{NOTE}": data})

    finish_pending_move(disk, "/disk-2", ["/disk-1", "/disk-2"])

    assert disk.contents() == files


def test_a_note_of_a_move_from_a_directory_that_is_not_here_is_kept() -> None:
    disk = SimulatedDisk.of({f"/disk-1/{ORDERS}/x": b"", f"/disk-2/{ORDERS}/x": b""})
    note_move(disk, "/disk-2", PendingMove(ORDERS, "/disk-1"))
    before = disk.contents()

    finish_pending_move(disk, "/disk-2", ["/disk-2"])

    assert disk.contents() == before
