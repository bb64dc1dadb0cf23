"""Salvages readable batches after damage, for a log without another copy: chooses them, rewrites the segment.

Kafka drops everything after the first bad batch. Gaps in offsets are legal, so more can be kept, but only
batches that are certain. These are whole v2 batches with a correct checksum, with a leader epoch that is not
below that of the batch before, and with offsets between the last kept batch and the next segment. The
checksum alone is not enough: it covers neither offset nor length, and it is also correct in stale blocks of
other files. Transactions that were open at a gap are left out (`salvage_transactions.py` says why).

The segment is rewritten to a new file, which replaces it as a cleaned segment does: .cleaned, .swap, live. So
the inventory can handle a power cut at any moment in between.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from stratalog.files.disk import Path, ReadFile
from stratalog.files.entries import NO_FILE
from stratalog.files.names import FileKind, FileState, SegmentFile
from stratalog.files.reading import DiskReader
from stratalog.log.recovery.facts import FileFact
from stratalog.log.recovery.inventory import FoundSegment
from stratalog.log.recovery.ranges import ByteRange, merged, without
from stratalog.log.recovery.salvage_search import Search
from stratalog.log.recovery.salvage_transactions import GapTransactions, OpenTransaction, follow_good
from stratalog.log.recovery.steps import CopyRanges, KeepRange, Rename, Step, SyncDirectory
from stratalog.records.kernels.memory import Bytes
from stratalog.segment.headers import ReadInto, walk_file

DAMAGED = "damage, or batches that do not follow the last one kept"
OPEN_TRANSACTION = "a transaction that was open where bytes are lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Bytes of the old file that the new one does not have.

    The lost offsets are `first_offset` to `last_offset`, as the batches before and after show. `last_offset`
    is None if no batch follows.
    """

    position: int
    size: int
    reason: str
    first_offset: int
    last_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvage:
    """How a segment is rewritten: the ranges of the file that stay, in order, and those that do not.

    `batches_count` counts the batches kept after the damage. `in_doubt` has the producers whose transaction
    was open at a gap, here or before, and was not ended by a marker in this segment. The value says whether a
    part of that transaction stays in earlier segments.
    """

    kept: tuple[ByteRange, ...]
    left_out: tuple[LeftOut, ...]
    batches_count: int
    in_doubt: dict[int, bool]

    @property
    def is_rewritten(self) -> bool:
        """Whether the segment is rewritten; otherwise it stays as it is, or is cut at the damage as usual."""
        return self.batches_count > 0 or any(left.reason == OPEN_TRANSACTION for left in self.left_out)


def find_readable(
    disk: DiskReader,
    path: Path,
    start: int,
    end: int,
    *,
    last_offset: int,
    last_epoch: int,
    next_base: int,
    open_before: Mapping[int, OpenTransaction] | None = None,
    open_at_start: Collection[int] = (),
    is_followed: bool = False,
    keep_open_transactions: bool = False,
) -> Salvage:
    """What can be kept of bytes [start, end) of a .log, whose first `start` bytes are good batches.

    The batch before `start`, perhaps in an earlier segment, ends with `last_offset` and has `last_epoch`.
    `next_base` is the next segment's base offset, at most 2^31 above this segment's, or above that of its
    last piece if it is split. `open_before` are the transactions that are open at the start of the segment,
    by producer; after an earlier gap some may be in doubt. `open_at_start` are the producers with an open
    transaction at `start`. `is_followed`: segments after this one stay, so damage at its end is a gap too. If
    `start` is the end, nothing is damaged, and only batches in doubt are removed.

    Memory holds a chunk of the file, or its largest batch, and the result.
    """
    open_before = open_before or {}
    transactions = None if keep_open_transactions else GapTransactions(open_before)
    dropped: list[ByteRange] = []
    with disk.open_read(path) as file:

        def read_into(buffer: Bytes, position: int) -> int:
            return disk.read_into(file, buffer, position)

        if transactions is not None:
            follow_good(read_into, start, transactions, {*open_before, *open_at_start})
            dropped = transactions.left_out()
        search = Search(read_into, end, last_offset, last_epoch, next_base, transactions)
        search.run(start)
        found = dropped
        if transactions is not None:
            if is_followed and search.kept_end < end:
                transactions.see_gap()
            found = transactions.left_out()
        batches_count = search.batches_count - sum(position >= start for position, _ in found)
        if batches_count or is_followed:
            dropped = found
        else:
            search.kept = []  # nothing can be salvaged: the log ends here, without the batches in doubt
        kept = without([(0, start), *search.kept], dropped)
        left_out = _left_out(
            read_into, kept, dropped, end, last_offset + 1, next_base - 1 if is_followed else None
        )
    return Salvage(
        kept=kept,
        left_out=left_out,
        batches_count=batches_count,
        in_doubt={} if transactions is None else transactions.in_doubt(),
    )


def keep_steps(files: FoundSegment, salvage: Salvage) -> tuple[Step, ...]:
    """The steps that keep what is left out of a segment."""
    return tuple(
        KeepRange(file=files.log, position=left.position, size=left.size, why=left.reason)
        for left in salvage.left_out
    )


def rewrite_steps(files: FoundSegment, salvage: Salvage) -> tuple[Step, ...]:
    """The steps that rewrite the segment with the salvaged batches; its indexes are written afterwards."""
    why = "readable batches after damage are kept"
    log = SegmentFile(files.base_offset, FileKind.LOG)
    cleaned, swap = (log._replace(state=state).name for state in (FileState.CLEANED, FileState.SWAP))
    size = sum(size for _, size in salvage.kept)
    # This file does not exist yet: only the run that writes it knows its id.
    new = FileFact(cleaned, size, NO_FILE, files.log.mtime_ms)
    return (
        *keep_steps(files, salvage),
        CopyRanges(file=files.log, to=cleaned, ranges=salvage.kept, why=why),
        SyncDirectory(),
        Rename(file=new, to=swap, why=why),
        SyncDirectory(why="whole and on the device before it replaces the old one"),
        Rename(file=new._replace(name=swap), to=log.name, why=why, over=files.log),
        SyncDirectory(),
    )


def kept_reader(disk: DiskReader, file: ReadFile, ranges: Iterable[ByteRange]) -> tuple[ReadInto, int]:
    """The file as it will be with only these ranges: a function that reads it, and its size."""
    pieces = tuple(ranges)
    ends = list(accumulate(size for _, size in pieces))

    def read_into(buffer: Bytes, position: int) -> int:
        done = 0
        while done < len(buffer) and position < (ends[-1] if ends else 0):
            number = bisect_right(ends, position)
            left = ends[number] - position
            at = sum(pieces[number]) - left
            got = disk.read_into(file, buffer[done : done + left], at)
            if not got:
                break
            done, position = done + got, position + got
        return done

    return read_into, ends[-1] if ends else 0


def _left_out(
    read_into: ReadInto,
    kept: tuple[ByteRange, ...],
    dropped: list[ByteRange],
    end: int,
    first_offset: int,
    last_offset: int | None,
) -> tuple[LeftOut, ...]:
    """Everything outside of the ranges, and why.

    If no batch comes before the damage, `first_offset` is the first lost offset; if none follows it,
    `last_offset` is the last one.
    """
    holes = without([(0, end)], list(kept))
    damaged = dict(without(list(holes), dropped))
    positions, sizes = (np.array([piece[place] for piece in dropped], np.int64) for place in (0, 1))
    open_ones = dict(merged(positions, sizes))
    pieces = sorted([*kept, *damaged.items(), *open_ones.items()])
    offsets = [
        None if position in damaged else _offsets(read_into, position, size) for position, size in pieces
    ]
    left_out = []
    for number, (position, size) in enumerate(pieces):
        known = offsets[number]
        if position in open_ones and known is not None:
            left_out.append(
                LeftOut(
                    position=position,
                    size=size,
                    reason=OPEN_TRANSACTION,
                    first_offset=known[0],
                    last_offset=known[1],
                )
            )
        elif position in damaged:
            before = offsets[number - 1] if number else None
            behind = offsets[number + 1] if number + 1 < len(pieces) else None
            left_out.append(
                LeftOut(
                    position=position,
                    size=size,
                    reason=DAMAGED,
                    first_offset=first_offset if before is None else before[1] + 1,
                    last_offset=last_offset if behind is None else behind[0] - 1,
                )
            )
    return tuple(left_out)


def _offsets(read_into: ReadInto, position: int, size: int) -> tuple[int, int]:
    """The first and the last offset of a run of whole batches."""
    first = last = -1
    for part in walk_file(read_into, position, position + size, check_crc=False):
        headers = part.walk.headers
        if len(headers):
            first = int(headers[0]["base_offset"]) if first < 0 else first
            last = int(headers[-1]["last_offset"])
    return first, last
