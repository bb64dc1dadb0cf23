"""Places in a segment's log: the batch of an offset, the bytes of a fetch."""

from __future__ import annotations

from typing import NamedTuple


class OffsetPosition(NamedTuple):
    """The batch that contains an offset, or the first one after it, and its position in the file."""

    base_offset: int
    last_offset: int
    position: int
    size: int


class FetchedRange(NamedTuple):
    """The result of a read: bytes [position, position + size) of the file, which start with a batch.

    `base_offset` is that of the first batch. The range may end inside a batch; if it ends inside the first
    one, `first_entry_incomplete` is set.
    """

    base_offset: int
    position: int
    size: int
    first_entry_incomplete: bool
