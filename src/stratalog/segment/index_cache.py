"""Which indexes are in memory: the ones in use, up to a number of bytes, over all logs of the process.

A look-up only leaves a note that its index is in use, without a lock; it is looked at when room is needed.
Whoever has such a note then goes to the end of the queue without it, and whoever has none must go.
"""

from __future__ import annotations

import threading
from typing import Protocol

from stratalog.files.processes import tell_in_child

DEFAULT_MAX_BYTES = 128 << 20
_OVERHEAD = 1024  # of an index with hardly any entries: the arrays themselves, their views, its place here


class Forgetful(Protocol):
    """Something that can give back its memory, and read it again when it is needed."""

    was_used: bool

    def forget_entries(self) -> None: ...


class IndexCache:
    """Tells indexes that were not used for long to forget their entries; safe from several threads."""

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._sizes: dict[Forgetful, int] = {}  # the first is looked at first
        self._lock = threading.Lock()
        self.used_bytes = 0

    def keep(self, index: Forgetful, size: int) -> None:
        """Note that `index` holds `size` bytes from now on; the index itself always stays."""
        with self._lock:
            size += _OVERHEAD
            self.used_bytes += size - self._sizes.pop(index, 0)
            self._sizes[index] = size
            chances = len(self._sizes)  # once around: others may use their indexes all the while
            while self.used_bytes > self._max_bytes and len(self._sizes) > 1:
                oldest = next(iter(self._sizes))
                held = self._sizes.pop(oldest)
                if oldest is index or (oldest.was_used and chances > 0):
                    oldest.was_used = False
                    self._sizes[oldest] = held
                    chances -= 1
                    continue
                self.used_bytes -= held
                oldest.forget_entries()

    def discard(self, index: Forgetful) -> None:
        """The index holds nothing any more."""
        with self._lock:
            self.used_bytes -= self._sizes.pop(index, 0)

    def start_over_in_child(self) -> None:
        """After a fork: the thread that may have held the lock is not here."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._sizes)


shared = IndexCache()
tell_in_child(shared)
