"""Changes at the ends of logs in a broker's clean directory: some make it lose records, one refuse to start.

tests/kafka/test_log_ends.py starts Kafka 4.3.1 on each. The newest segment of rolled-0 has the offsets 72 to
79, in two batches of 345 bytes, and its index has no entry.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from stratalog.directory.refusal import RefusalKind
from tests.directory.refused import ACTIVE, Make, cut, in_order, remove, write

BASE, END = 72, 80
INDEX = ACTIVE.removesuffix("log") + "index"
STARTS = "log-start-offset-checkpoint"


class Ending(NamedTuple):
    """A change, what must be reported about it, and where the log of rolled-0 begins and ends in a broker."""

    kind: RefusalKind
    name: str
    make: Make
    start: int
    end: int


def entries(*pairs: tuple[int, int]) -> Make:
    """The newest index with these entries: a relative offset, and the number of a batch or a byte."""
    return write(INDEX, b"".join(struct.pack(">ii", *pair) for pair in pairs))


def at_batch(number: int, *, offset: int | None = None, then: bytes = b"") -> Make:
    """The newest index with one entry for a batch, by default for its last offset."""

    def make(directory: Path) -> None:
        log = (directory / ACTIVE).read_bytes()
        position = 0
        for _ in range(number):
            position += 12 + int.from_bytes(log[position + 8 : position + 12])
        (delta,) = struct.unpack_from(">i", log, position + 23)
        base = int.from_bytes(log[position : position + 8])
        last = base + delta - BASE if offset is None else offset
        (directory / INDEX).write_bytes(struct.pack(">ii", last, position) + then)

    return make


def starts_at(offset: int) -> Make:
    return write(STARTS, f"0\n1\nrolled 0 {offset}\n".encode())


LOSING: dict[str, Ending] = {
    "an index of noise": Ending(RefusalKind.WRONG_END, INDEX, write(INDEX, b"z" * 13), 0, BASE),
    "an index entry past the log": Ending(RefusalKind.WRONG_END, INDEX, entries((7, 100_000)), 0, BASE),
    "an index entry for a later offset": Ending(
        RefusalKind.WRONG_END, INDEX, at_batch(1, offset=500), 0, BASE
    ),
    "an index entry in the middle of a batch": Ending(RefusalKind.WRONG_END, INDEX, entries((7, 1)), 0, BASE),
    "a log that was cut before the batch of the index": Ending(
        RefusalKind.WRONG_END, INDEX, in_order(at_batch(1), cut(ACTIVE, 400)), 0, BASE
    ),
    "a start past the end": Ending(
        RefusalKind.START_PAST_END, STARTS, starts_at(99_999_999), 99_999_999, 99_999_999
    ),
}
# Read as a header, these bytes have the length 0.
REFUSED_END = Ending(RefusalKind.LOG_END, INDEX, entries((7, 337)), 0, END)
HARMLESS: dict[str, Make] = {
    "an index without entries": write(INDEX, b""),
    "no index": remove(INDEX),
    "a preallocated index": write(INDEX, bytes(4096)),
    "a preallocated index with an entry": at_batch(1, then=bytes(80)),
    "an index entry": at_batch(1),
    "an index entry and half of one": at_batch(1, then=b"zzz"),
    "an index entry for a lower offset": at_batch(1, offset=1),
    "an index entry for the first offset": at_batch(0, offset=0),
    "an index entry before the log": entries((3, -5)),
    "a start at the end": starts_at(END),
    "a start in the newest segment": starts_at(BASE + 3),
}
