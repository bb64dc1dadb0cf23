"""A damaged segment as a list of batches of which some are damaged, and a plain model of what may survive."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple

from stratalog.files.simulated import SimulatedDisk
from stratalog.log.recovery.salvage import Salvage, find_readable
from stratalog.log.recovery.salvage_transactions import OpenTransaction
from tests import naive

ROOT, DIRECTORY = "/logs", "/logs/t-0"
BASE = 100
NAME = f"{BASE:020d}.log"
LOG = f"{DIRECTORY}/{NAME}"
TRANSACTIONAL, CONTROL = 1 << 4, 1 << 5
NEXT_BASE = 1000
PLAIN, TXN, COMMIT, ABORT, JUNK = "plain", "txn", "commit", "abort", "junk"


class Piece(NamedTuple):
    """A batch as the model sees it, or bytes that are none."""

    data: bytes
    kind: str = JUNK
    offset: int = -1
    last_offset: int = -1
    epoch: int = -1
    producer_id: int = -1

    def damaged(self, at: int = -1) -> Piece:
        """One bit of it is wrong, under the checksum."""
        raw = bytearray(self.data)
        raw[at] ^= 4
        return Piece(bytes(raw))

    def moved(self, offset: int) -> Piece:
        """The same batch under another offset, which the checksum does not cover."""
        data = offset.to_bytes(8, "big") + self.data[8:]
        return self._replace(data=data, offset=offset, last_offset=offset + self.last_offset - self.offset)

    def aged(self, epoch: int) -> Piece:
        return self._replace(data=self.data[:12] + epoch.to_bytes(4, "big") + self.data[16:], epoch=epoch)


def batch(
    offset: int, kind: str = PLAIN, producer_id: int = -1, *, count: int = 1, epoch: int = 3, size: int = 30
) -> Piece:
    attributes = {PLAIN: 0, TXN: TRANSACTIONAL}.get(kind, TRANSACTIONAL | CONTROL)
    if kind in (COMMIT, ABORT):
        key = b"\0\0" + (kind == COMMIT).to_bytes(2, "big")
        records = [naive.Record(offset, 5, key, b"\0\0" + bytes(4))]
    else:
        values = random.Random(offset)
        records = [naive.Record(offset + i, 5, b"key", values.randbytes(size)) for i in range(count)]
    data = naive.encode_batch(
        records,
        attributes=attributes,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=-1 if producer_id < 0 or kind in (COMMIT, ABORT) else offset,
        partition_leader_epoch=epoch,
    )
    return Piece(data, kind, offset, offset + len(records) - 1, epoch, producer_id)


def survivors(
    pieces: list[Piece],
    first_bad: int,
    *,
    next_base: int = NEXT_BASE,
    from_before: Iterable[int] = (),
    keep_open: bool = False,
    is_followed: bool = False,
) -> list[int]:
    """The numbers of the pieces that must survive, by the rules as the design states them."""
    kept = list(range(first_bad))
    last = pieces[first_bad - 1] if first_bad else Piece(b"", offset=BASE - 1, last_offset=BASE - 1, epoch=-1)
    for number in range(first_bad, len(pieces)):
        piece = pieces[number]
        if piece.kind == JUNK or piece.offset <= last.last_offset or piece.last_offset >= next_base:
            continue
        if piece.epoch >= last.epoch:
            kept.append(number)
            last = piece
    gaps = [now for before, now in zip([first_bad - 1, *kept], kept, strict=False) if now - 1 not in kept]
    gaps = [gap for gap in gaps if gap > first_bad]
    if is_followed and len(pieces) - 1 not in kept:
        gaps.append(len(pieces))
    if keep_open:
        return kept
    dropped: set[int] = set()
    for producer_id in {pieces[number].producer_id for number in kept} - {-1} | set(from_before):
        began_before, start, txn = producer_id in from_before, -1, []
        is_doubtful = False
        for number in [*kept, len(pieces)]:
            at_end = number == len(pieces)
            piece = Piece(b"") if at_end else pieces[number]
            if not at_end and piece.producer_id != producer_id:
                continue
            if not at_end and piece.kind == TXN:
                start = number if start < 0 else start
                txn.append(number)
                continue
            has_gap = any((start if not began_before else -1) < gap <= number for gap in gaps)
            is_open = began_before or bool(txn)
            if is_open and (has_gap or is_doubtful):
                dropped.update(txn)
                if began_before and piece.kind == COMMIT:
                    dropped.add(number)
                    start, txn, is_doubtful = -1, [], True
                    continue
            began_before, start, txn, is_doubtful = False, -1, [], False
    left = [number for number in kept if number not in dropped]
    is_gained = is_followed or any(number >= first_bad for number in left)
    return left if is_gained else list(range(first_bad))


def salvaged(
    pieces: list[Piece],
    first_bad: int,
    *,
    next_base: int = NEXT_BASE,
    from_before: Iterable[int] = (),
    keep_open: bool = False,
    is_followed: bool = False,
) -> tuple[bytes, Salvage]:
    data = b"".join(piece.data for piece in pieces)
    start = sum(len(piece.data) for piece in pieces[:first_bad])
    open_there = set(from_before)
    for piece in pieces[:first_bad]:
        if piece.kind == TXN:
            open_there.add(piece.producer_id)
        elif piece.kind in (COMMIT, ABORT):
            open_there.discard(piece.producer_id)
    last = pieces[first_bad - 1] if first_bad else None
    salvage = find_readable(
        SimulatedDisk.of({LOG: data}),
        LOG,
        start,
        len(data),
        last_offset=last.last_offset if last else BASE - 1,
        last_epoch=last.epoch if last else -1,
        next_base=next_base,
        open_before={producer: OpenTransaction(began_before=True) for producer in from_before},
        open_at_start=open_there,
        is_followed=is_followed,
        keep_open_transactions=keep_open,
    )
    return b"".join(data[at : at + size] for at, size in salvage.kept), salvage


NESTED = naive.encode_batch([naive.Record(BASE + 12, 5, b"k", batch(7).data)], partition_leader_epoch=3)


def in_transactions(*kinds: str | bytes) -> list[Piece]:
    """Pieces by word: `1` is a batch of producer 1's transaction, `1c` its commit, `1a` its abort, `.` is
    plain, `#` is lost."""
    pieces = []
    for number, word in enumerate(kinds):
        offset = BASE + number
        if word == "#":
            pieces.append(batch(offset).damaged())
        elif word == ".":
            pieces.append(batch(offset))
        else:
            kind = {"": TXN, "c": COMMIT, "a": ABORT}[str(word)[1:]]
            pieces.append(batch(offset, kind, int(str(word)[0])))
    return pieces
