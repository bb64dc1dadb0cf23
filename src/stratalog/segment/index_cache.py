"""Which indexes are in memory: the ones used last, up to a number of bytes, over all logs of the process."""

from __future__ import annotations

import threading
from typing import Protocol

DEFAULT_MAX_BYTES = 128 << 20
_OVERHEAD = 1024  # of an index with hardly any entries: the arrays themselves, their views, its place here


class Forgetful(Protocol):
    """Something that can give back its memory, and read it again when it is needed."""

    def forget_entries(self) -> None: ...


class IndexCache:
    """Tells the index that was not used for longest to forget its entries; safe from several threads."""

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._sizes: dict[Forgetful, int] = {}  # in the order of their last use
        self._lock = threading.Lock()
        self.used_bytes = 0

    def keep(self, index: Forgetful, size: int) -> None:
        """Note that `index` was used just now and holds `size` bytes; the index itself always stays."""
        with self._lock:
            size += _OVERHEAD
            self.used_bytes += size - self._sizes.pop(index, 0)
            self._sizes[index] = size
            while self.used_bytes > self._max_bytes and len(self._sizes) > 1:
                oldest = next(iter(self._sizes))
                self.used_bytes -= self._sizes.pop(oldest)
                oldest.forget_entries()

    def discard(self, index: Forgetful) -> None:
        """The index holds nothing any more."""
        with self._lock:
            self.used_bytes -= self._sizes.pop(index, 0)

    def __len__(self) -> int:
        return len(self._sizes)


shared = IndexCache()
