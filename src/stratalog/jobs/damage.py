"""What is wrong with a segment, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum


class DamageKind(Enum):
    """How a stretch of a .log file is unreadable."""

    WRONG_CRC = "wrong-crc"
    TORN_TAIL = "torn-tail"
    ZEROS = "zeros"
    BAD_LENGTH = "bad-length"
    BAD_MAGIC = "bad-magic"
    INVALID_RECORDS = "invalid-records"

    @property
    def advice(self) -> str:
        """What an operator does next."""
        return _ADVICE[self]


_FETCH_ANEW = "Where another replica has it: stop the broker, move the partition's folder away, start it."
_CUTS_IT_OFF = "Nothing: a broker that was not shut down cleanly cuts it off when it starts."
_ADVICE = {
    DamageKind.WRONG_CRC: f"{_FETCH_ANEW} Batches behind it are readable all the same.",
    DamageKind.TORN_TAIL: f"{_CUTS_IT_OFF} A crash while writing leaves this; if much is lost, a bad length.",
    DamageKind.ZEROS: f"{_CUTS_IT_OFF} A power cut leaves this, and preallocation.",
    DamageKind.BAD_LENGTH: f"{_FETCH_ANEW} A broker that recovers cuts the log here.",
    DamageKind.BAD_MAGIC: f"{_FETCH_ANEW} A broker that recovers cuts the log here.",
    DamageKind.INVALID_RECORDS: f"{_FETCH_ANEW} The checksum holds: it may have been sent like this.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A stretch of a file that cannot be read: from byte `position`, `lost_size` bytes long.

    Where batch after batch is unreadable that is one damage: bytes that went missing spoil a checksum first
    and then every length that would have followed. `reason` says how it begins, `kind` how it ends.
    """

    path: str
    position: int
    kind: DamageKind
    reason: str
    lost_size: int

    @property
    def end(self) -> int:
        """The byte behind it."""
        return self.position + self.lost_size


def merge_adjacent(damages: Iterable[Damage]) -> list[Damage]:
    """Damages of one file, in the order of their positions, with those that touch made one.

    The kind is the last one's, which says how it goes on behind it; the reason is the first one's.
    """
    merged: list[Damage] = []
    for damage in damages:
        if merged and merged[-1].end == damage.position:
            lost_size = merged[-1].lost_size + damage.lost_size
            merged[-1] = replace(merged[-1], kind=damage.kind, lost_size=lost_size)
        else:
            merged.append(damage)
    return merged
