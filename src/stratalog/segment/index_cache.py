"""Which indexes are in memory: the ones in use, up to a number of bytes, over all logs of the process.

A look-up only flags its index as used, without a lock. When room is needed each index gets a second chance: a
flagged one loses its flag and is queued again, an unflagged one is told to forget its entries.

The cache keeps no index alive: that of a log which nobody closed goes with it.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
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
        # By the id of each index, so that the index may be collected; the first is looked at first.
        self._held: dict[int, tuple[weakref.ref[Forgetful], int]] = {}
        # Those that were collected. A collection may come while this thread holds the lock.
        self._collected: deque[tuple[int, weakref.ref[Forgetful]]] = deque()
        self._lock = threading.Lock()
        self.used_bytes = 0

    def keep(self, index: Forgetful, size: int) -> None:
        """Note that `index` holds `size` bytes from now on; the index itself always stays."""
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
            chances = len(self._held)  # once around: others may use their indexes all the while
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
        """The index holds nothing any more."""
        with self._lock:
            self._drop_collected()
            self._drop(id(index))

    def _drop_collected(self) -> None:
        while self._collected:
            key, gone = self._collected.popleft()
            held = self._held.get(key)
            if held is not None and held[0] is gone:  # else another index has got its id since
                self._drop(key)

    def _drop(self, key: int) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            self.used_bytes -= held[1]

    def start_over_in_child(self) -> None:
        """After a fork: the thread that may have held the lock is not here."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            self._drop_collected()
            return len(self._held)


shared = IndexCache()
tell_in_child(shared)
