"""Damage for the tests of reading: bytes of a log flipped or zeroed, and the offsets that this hits."""

from __future__ import annotations

from pathlib import Path

from tests.jobs.reading.making import Made, batches_of


def flip(log: Path, position: int) -> None:
    data = bytearray(log.read_bytes())
    data[position] ^= 0xFF
    log.write_bytes(data)


def zero(log: Path, zeros: range) -> list[int]:
    """Zeros over some bytes of a log; returns the offsets of the batches that they hit."""
    offsets: list[int] = []
    position = 0
    for batch, base_offset, last_offset in batches_of(log):
        if position < zeros.stop and position + len(batch) > zeros.start:
            offsets += range(base_offset, last_offset + 1)
        position += len(batch)
    data = bytearray(log.read_bytes())
    data[zeros.start : zeros.stop] = bytes(len(zeros))
    log.write_bytes(data)
    return offsets


def damaged(own_log: Made, at_byte_of_batch: int) -> tuple[Path, int, list[int]]:
    """A byte of the seventh batch of the second segment flipped: (file, where it starts, its offsets)."""
    log = sorted(own_log.path.glob("*.log"))[1]
    batches = list(batches_of(log))
    position = sum(len(batch) for batch, _, _ in batches[:6])
    flip(log, position + at_byte_of_batch)
    _, base_offset, last_offset = batches[6]
    return log, position, list(range(base_offset, last_offset + 1))
