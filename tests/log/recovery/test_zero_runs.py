"""Zeros in bytes that are cut off: counted, not kept."""

from __future__ import annotations

from stratalog.files.names import QUARANTINE_MANIFEST
from stratalog.log.recovery.zero_runs import ZERO_BLOCK_SIZE
from tests.log.recovery.keeping import BYTES, LOG, ROOT, keep, made, quarantine


def test_zeros_are_recorded_by_their_length_alone() -> None:
    disk = made(BYTES[:4096] + bytes(1 << 20) + BYTES)
    kept = keep(disk, 0, 4096 + (1 << 20) + len(BYTES))

    (name,) = kept.files
    assert disk.contents()[f"{ROOT}/{name}"] == BYTES[:4096] + BYTES
    assert [(part.file is None, part.size) for part in kept.parts] == [
        (False, 4096),
        (True, 1 << 20),
        (False, len(BYTES)),
    ]


def test_nothing_but_zeros_takes_no_file() -> None:
    disk = made(bytes(10 * ZERO_BLOCK_SIZE))

    assert keep(disk, 0, 10 * ZERO_BLOCK_SIZE).files == ()
    assert set(disk.contents()) == {LOG, f"{ROOT}/{QUARANTINE_MANIFEST}"}


def test_zeros_need_no_room() -> None:
    disk = made(bytes(1 << 20))
    disk.room = 100

    quarantine(disk).require_room([(LOG, 0, 1 << 20)])
    assert keep(disk, 0, 1 << 20).files == ()
