"""Measures the cells of the table, each in several rounds, and takes the best and the median of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

from stratalog.cli.startup.article import BASELINE, UNCLEAN, article_gain, article_text
from stratalog.cli.startup.directory import StartupDirectory
from stratalog.cli.startup.kafka_load import Strategy
from stratalog.cli.startup.rival import Rival
from stratalog.cli.startup.strategies import LoadMeasurement, load_by
from stratalog.operations.words import counted

KAFKA = "Kafka itself"
WARM, COLD = "warm", "cold"
DROP_CACHES = Path("/proc/sys/vm/drop_caches")


class Cell(NamedTuple):
    """What is measured: a strategy, how the directory was stopped, the page cache, the threads."""

    strategy: str
    state: str
    cache: str
    readers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The loads of one cell; all fields except the times are those of the fastest load."""

    cell: Cell
    times: tuple[float, ...]
    partitions: int
    partition_seconds: float | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    syncs: int | None = None
    busy: float | None = None
    segments_scanned: int | None = None
    segments_scanned_twice: int | None = None

    @property
    def best(self) -> float:
        return min(self.times)

    @property
    def median(self) -> float:
        return median(self.times)

    @property
    def bytes_per_partition(self) -> int | None:
        return None if self.bytes_read is None else self.bytes_read // self.partitions

    @property
    def article(self) -> str:
        return article_text(self.cell.strategy, self.cell.state, self.cell.readers)

    @property
    def article_gain(self) -> float | None:
        return article_gain(self.cell.strategy, self.cell.state, self.cell.readers)


def gain(row: Measured, rows: Sequence[Measured]) -> float | None:
    """The best time of Kafka 2.1 with one reader, in the same state and cache, divided by this best time."""
    baseline = row.cell._replace(strategy=BASELINE, readers=1)
    found = next((other for other in rows if other.cell == baseline), None)
    return None if found is None else found.best / row.best


class Measuring:
    """Loads one directory again and again; `say` is called with what is measured."""

    def __init__(
        self, directory: StartupDirectory, *, rounds: int, cold: bool, say: Callable[[str], None]
    ) -> None:
        self._directory, self._rounds, self._say = directory, rounds, say
        self._caches = (WARM, COLD) if cold else (WARM,)

    def strategies(
        self, chosen: Sequence[Strategy], states: Sequence[str], readers: Sequence[int]
    ) -> list[Measured]:
        """Measure the strategies: all loads are done by this process."""
        by_name = {strategy.name: strategy for strategy in chosen}

        def load(cell: Cell) -> LoadMeasurement:
            return load_by(
                by_name[cell.strategy],
                str(self._directory.path),
                readers=cell.readers,
                config=self._directory.config,
            )

        return self._measure([*by_name], states, readers, load)

    def broker(self, rival: Rival, states: Sequence[str], readers: Sequence[int]) -> list[Measured]:
        """Measure the same loads by a real broker."""

        def load(cell: Cell) -> LoadMeasurement:
            return rival.load(self._directory.path, threads=cell.readers)

        return self._measure([KAFKA], states, readers, load)

    def _measure(
        self,
        names: Sequence[str],
        states: Sequence[str],
        readers: Sequence[int],
        load: Callable[[Cell], LoadMeasurement],
    ) -> list[Measured]:
        """Each round has all cells, so that a disturbance does not hit only one of them."""
        found: dict[Cell, list[LoadMeasurement]] = {
            Cell(name, state, cache, count): []
            for state in states
            for cache in self._caches
            for name in names
            for count in readers
        }
        for number in range(self._rounds):
            for cell, loads in found.items():
                self._say(
                    f"Round {number + 1} of {self._rounds}: {cell.strategy}, {cell.state}, "
                    f"{cell.cache} cache, {counted(cell.readers, 'reader')} ..."
                )
                if cell.state == UNCLEAN:
                    self._directory.make_unclean()
                else:
                    self._directory.make_clean()
                self._set_cache(cell.cache)
                loads.append(load(cell))
        return [self._row(cell, loads) for cell, loads in found.items()]

    def _row(self, cell: Cell, loads: Sequence[LoadMeasurement]) -> Measured:
        best = min(loads, key=lambda load: load.seconds)
        return Measured(
            cell=cell,
            times=tuple(load.seconds for load in loads),
            partitions=self._directory.shape.partitions,
            partition_seconds=best.partition_seconds,
            bytes_read=best.bytes_read,
            bytes_written=best.bytes_written,
            syncs=best.syncs,
            busy=best.busy,
            segments_scanned=best.scanned(at_least=1),
            segments_scanned_twice=best.scanned(at_least=2),
        )

    def _set_cache(self, cache: str) -> None:
        """Fill the page cache by reading all logs once, or empty it."""
        os.sync()
        if cache == COLD:
            DROP_CACHES.write_text("3")
            return
        buffer = bytearray(1 << 20)
        for path in self._directory.logs():
            with path.open("rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass
