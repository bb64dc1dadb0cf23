"""Limits the memory of indexes, over all logs of the process: indexes in use stay in memory.

A lookup only flags its index as used, without a lock. When room is needed, each index gets a second chance: a
flagged one loses its flag and is queued again, an unflagged one must forget its entries.

The cache keeps no index alive: if a log that was never closed is garbage-collected, so are its indexes.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Protocol

from stratalog.files.processes import tell_in_child

DEFAULT_MAX_BYTES = 128 << 20
_OVERHEAD = 1024  # the memory of an index besides its entries: array objects, views, its place here


class Forgetful(Protocol):
    """An object that can release its entries, and read them again when they are needed."""

    was_used: bool

    def forget_entries(self) -> None: ...


class IndexCache:
    """Makes indexes that were not used recently forget their entries; thread-safe."""

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        # By the id of each index, so that an index may be garbage-collected. The first entry is checked
        # first.
        self._held: dict[int, tuple[weakref.ref[Forgetful], int]] = {}
        # Collected indexes: they cannot be dropped at once, because the collecting thread may hold the lock.
        self._collected: deque[tuple[int, weakref.ref[Forgetful]]] = deque()
        self._lock = threading.Lock()
        self.used_bytes = 0

    def keep(self, index: Forgetful, size: int) -> None:
        """Record that `index` holds `size` bytes from now on; this index itself is never evicted here."""
        key = id(index)
        with self._lock:
            self._drop_collected()
            size += _OVERHEAD
            known = self._held.pop(key, None)
            if known is None:
                collected = self._collected
                known = weakref.ref(index, lambda gone: collected.append((key, gone))), 0
            self.used_bytes += size - known[1]
            self._held[key] = known[0], size
            chances = len(self._held)  # one for each index: other threads may set flags again meanwhile
            while self.used_bytes > self._max_bytes and len(self._held) > 1:
                number = next(iter(self._held))
                held = self._held.pop(number)
                oldest = held[0]()
                if oldest is not None and (oldest is index or (oldest.was_used and chances > 0)):
                    oldest.was_used = False
                    self._held[number] = held
                    chances -= 1
                    continue
                self.used_bytes -= held[1]
                if oldest is not None:
                    oldest.forget_entries()

    def discard(self, index: Forgetful) -> None:
        """Called when the index holds no memory any more."""
        with self._lock:
            self._drop_collected()
            self._drop(id(index))

    def _drop_collected(self) -> None:
        while self._collected:
            key, gone = self._collected.popleft()
            held = self._held.get(key)
            if held is not None and held[0] is gone:  # otherwise another index has its id now
                self._drop(key)

    def _drop(self, key: int) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            self.used_bytes -= held[1]

    def start_over_in_child(self) -> None:
        """After a fork: create a new lock, because the thread that may hold the old one is not here."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            self._drop_collected()
            return len(self._held)


shared = IndexCache()
tell_in_child(shared)
