"""What a power cut may take from a simulated disk, in names and in bytes. Nothing here has state."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from stratalog.files.simulated_files import Change, SimulatedFile, Survival

_WORDS = {
    Survival.KEPT: "no write lost",
    Survival.LOST: "all writes lost",
    Survival.LAST_LOST: "last writes lost",
    Survival.LAST_TORN: "last writes torn",
    Survival.FIRST_LOST: "first writes lost",
}
_MIXED_FATES = 4  # the number of disks on which each file has its own random outcome


class CrashLoss(NamedTuple):
    """What a crash took: changes of names, and bytes."""

    names: str = "no name lost"
    writes: str = "no write lost"


NOTHING_LOST = CrashLoss()


def possible_names(changes: Sequence[Change]) -> Iterator[tuple[str, Sequence[Change]]]:
    """The possible sets of name changes that happened, each with its description."""
    count = len(changes)
    yield NOTHING_LOST.names, changes
    for kept in range(count):
        yield "the last names lost", changes[:kept]
    for lost in range(count - 1):
        yield "one name lost", [*changes[:lost], *changes[lost + 1 :]]


def possible_survivals(
    files: Iterable[SimulatedFile], seed: int
) -> Iterator[tuple[str, dict[int, Survival]]]:
    """The possible outcomes for files with unsynced changes, by inode, each with its description."""
    alive = {file.inode: file for file in files}
    changed = [inode for inode, file in alive.items() if not file.is_synced]
    if not changed:
        yield NOTHING_LOST.writes, {}
        return
    for survival in Survival:
        yield _WORDS[survival], dict.fromkeys(changed, survival)
    if len(changed) > 1:
        kept, lost = (dict.fromkeys(changed, fate) for fate in (Survival.KEPT, Survival.LOST))
        for inode in changed:
            yield "one file's writes lost", {**kept, inode: Survival.LOST}
            yield "one file's writes kept", {**lost, inode: Survival.KEPT}
        choice = random.Random(seed)
        for _ in range(_MIXED_FATES):
            yield "each file its own", {inode: choice.choice(list(Survival)) for inode in changed}
