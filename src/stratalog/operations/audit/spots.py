"""Collects the findings in the files of a segment, without keeping a million rows of the same kind.

The first places of each kind are kept; later ones are only counted. So a task needs little memory even for a
file that is damaged in every batch.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from stratalog.operations.audit.kinds import AuditKind

MOST_PLACES = 20  # places of one kind in one file


class Spot(NamedTuple):
    """One place in a file of a partition."""

    kind: AuditKind
    file: str
    words: str
    position: int | None = None
    size: int | None = None
    offset: int | None = None
    times: int = 1


class Spots:
    """The places that were found in the files of one segment."""

    def __init__(self) -> None:
        self._kept: list[Spot] = []
        self._counts: Counter[tuple[AuditKind, str]] = Counter()

    def add(self, spot: Spot) -> None:
        key = spot.kind, spot.file
        self._counts[key] += 1
        if self._counts[key] <= MOST_PLACES:
            self._kept.append(spot)

    def result(self) -> tuple[Spot, ...]:
        """The places; if there were too many of a kind, the last one also counts those left out."""
        found = list(self._kept)
        for (kind, file), count in self._counts.items():
            if count > MOST_PLACES:
                last = max(
                    number for number, spot in enumerate(found) if (spot.kind, spot.file) == (kind, file)
                )
                found[last] = found[last]._replace(times=1 + count - MOST_PLACES)
        return tuple(found)
