"""A range of a file as runs of zeros and of other bytes: quarantine counts the zeros, and keeps the rest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stratalog.buffers import aligned_buffer
from stratalog.errors import QuarantineError
from stratalog.files.entries import Path
from stratalog.files.reading import DiskReader

ZERO_BLOCK_SIZE = 4096
_CHUNK_SIZE = 1 << 20  # a multiple of the block
_MOST_PARTS = 4096  # more would make a line of the manifest too long


def runs_of_range(
    disk: DiskReader, path: Path, position: int, size: int
) -> tuple[list[tuple[int, bool]], str]:
    """The range as runs of (size, whether it is zeros), and the SHA-256 of the whole range."""
    digest = hashlib.sha256()
    runs: list[tuple[int, bool]] = []
    buffer = aligned_buffer(_CHUNK_SIZE)
    done = 0
    while done < size:
        view = buffer[: min(_CHUNK_SIZE, size - done)]
        got = disk.read_into(path, view, position + done)
        if got < len(view):
            raise QuarantineError(
                path, f"it ends at byte {position + done + got}, before the bytes that are to be kept."
            )
        digest.update(view.data)
        for length, is_zero in _runs_of(view):
            if runs and runs[-1][1] == is_zero:
                runs[-1] = (runs[-1][0] + length, is_zero)
            else:
                runs.append((length, is_zero))
        done += len(view)
    if len(runs) > _MOST_PARTS:
        runs = [(size, False)]
    return runs, digest.hexdigest()


def _runs_of(view: NDArray[np.uint8]) -> Iterable[tuple[int, bool]]:
    """Whole blocks of zeros, and the bytes between them."""
    whole = len(view) // ZERO_BLOCK_SIZE
    blocks = view[: whole * ZERO_BLOCK_SIZE].reshape(whole, ZERO_BLOCK_SIZE)
    is_zero = np.logical_not(np.any(blocks, axis=1))
    changes = np.flatnonzero(np.diff(is_zero)) + 1
    edges = [0, *changes.tolist(), whole]
    for first, last in pairwise(edges):
        if first < last:
            yield (last - first) * ZERO_BLOCK_SIZE, bool(is_zero[first])
    rest = len(view) - whole * ZERO_BLOCK_SIZE
    if rest:
        yield rest, False
