"""What is wrong with a segment, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum


class DamageKind(Enum):
    """Why a range of a .log file is unreadable."""

    WRONG_CRC = "wrong-crc"
    TORN_TAIL = "torn-tail"
    ZEROS = "zeros"
    BAD_LENGTH = "bad-length"
    BAD_MAGIC = "bad-magic"
    INVALID_RECORDS = "invalid-records"

    @property
    def advice(self) -> str:
        """What an operator should do next."""
        return _ADVICE[self]


_FETCH_ANEW = (
    "If another replica has the data: stop the broker, move the partition's folder away, start the broker."
)
_CUTS_IT_OFF = "Nothing to do: after an unclean shutdown a broker cuts it off when it starts."
_ADVICE = {
    DamageKind.WRONG_CRC: f"{_FETCH_ANEW} The batches after it can still be read.",
    DamageKind.TORN_TAIL: f"{_CUTS_IT_OFF} A crash leaves this. If much is lost, suspect a bad length.",
    DamageKind.ZEROS: f"{_CUTS_IT_OFF} A power cut or preallocation leaves this.",
    DamageKind.BAD_LENGTH: f"{_FETCH_ANEW} A broker that recovers this log cuts it here.",
    DamageKind.BAD_MAGIC: f"{_FETCH_ANEW} A broker that recovers this log cuts it here.",
    DamageKind.INVALID_RECORDS: f"{_FETCH_ANEW} The checksum matches: it may have been sent like this.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A range of a file that cannot be read: `lost_size` bytes from byte `position` on.

    Unreadable batches in a row are one damage: missing bytes first break a checksum, then every length after
    it. `reason` says how it begins, `kind` how it ends.
    """

    path: str
    position: int
    kind: DamageKind
    reason: str
    lost_size: int

    @property
    def end(self) -> int:
        """The position just past the damage."""
        return self.position + self.lost_size


def merge_adjacent(damages: Iterable[Damage]) -> list[Damage]:
    """Merges damages of one file that touch; they come in the order of their positions.

    The merged damage has the kind of its last part, which says how the damage ends, and the reason of its
    first.
    """
    merged: list[Damage] = []
    for damage in damages:
        if merged and merged[-1].end == damage.position:
            lost_size = merged[-1].lost_size + damage.lost_size
            merged[-1] = replace(merged[-1], kind=damage.kind, lost_size=lost_size)
        else:
            merged.append(damage)
    return merged
