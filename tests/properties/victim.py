"""One kind of file to damage: healthy files, how they are damaged, and the code that reads them.

A victim's `read` gets damaged bytes, and makes its calls through `Outcomes.of`: only our own errors are an
outcome there, any other error ends the run.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from stratalog.errors import StratalogError
from stratalog.files.simulated import SimulatedDisk
from tests.properties.damage import damaged

FIXTURES = Path(__file__).parents[1] / "fixtures"
ROOT, PARTITION = "/data", "/data/orders-0"
OUTSIDE = "/outside/file"
Found = TypeVar("Found")


class Outcomes:
    """The outcome of each call, and the number of files of each kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()

    def of(self, act: Callable[..., Found], label: str) -> Found | None:
        """Do it; None and a count for an error of ours."""
        try:
            found = act()
        except StratalogError as error:
            str(error)
            self.counts[f"{label}: {type(error).__name__}"] += 1
            return None
        self.counts[f"{label}: fine"] += 1
        return found


Read = Callable[[Outcomes, random.Random, bytes], None]
Spoil = Callable[[random.Random, bytes, Sequence[bytes]], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A kind of file. `share` says how many of a thousand cases of its group are of this kind."""

    name: str
    share: int
    healthy: Callable[[], Sequence[bytes]]
    read: Read
    spoil: Spoil = damaged

    def attack(self, outcomes: Outcomes, rng: random.Random) -> None:
        healthy = self.healthy()
        data = self.spoil(rng, rng.choice(healthy), foreign() if rng.random() < 0.3 else healthy)
        outcomes.kinds[self.name] += 1
        self.read(outcomes, rng, data)


@cache
def files_of(pattern: str) -> tuple[bytes, ...]:
    """The fixtures' files of these names, each content once, and none that is empty."""
    found = {path.read_bytes() for path in sorted(FIXTURES.glob(f"*/*/logs/**/{pattern}")) if path.is_file()}
    return tuple(sorted(data for data in found if data))


@cache
def foreign() -> tuple[bytes, ...]:
    """A file of each kind, to put under the name of another kind."""
    patterns = ("*.log", "*.index", "*.timeindex", "*.txnindex", "*.snapshot", "leader-*", "*.metadata")
    return (*(files_of(pattern)[0] for pattern in patterns), b"", bytes(5000), b"\x7fELF\x02\x01", b"{}")


def on_disk(name: str, data: bytes) -> SimulatedDisk:
    return SimulatedDisk.of({f"{PARTITION}/{name}": data})
