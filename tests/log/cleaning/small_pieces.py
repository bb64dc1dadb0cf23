"""Small logs that are cleaned as large ones are: read ahead, in several parts, and written by a thread."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from stratalog.log.cleaning import clean, newest_first, parts, runs
from stratalog.log.cleaning.filter import FilteredRun
from stratalog.log.cleaning.newest_first import NewestFirst, Spooled
from stratalog.log.cleaning.output import CleanedOutput
from stratalog.log.cleaning.parts import BackwardSource, FilePart, PartMemory, PartSource
from stratalog.records import unpack
from stratalog.segment import headers
from stratalog.segment.txn_index import AbortedTxn

_CHUNK_SIZE = 300
_RUN_SIZE = 400


class SmallPieces:
    """Sizes of some hundred bytes for this test; counts what is read and written in which thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in (headers, parts, runs, clean, newest_first):
            monkeypatch.setattr(module, "CHUNK_SIZE", _CHUNK_SIZE)
        monkeypatch.setattr(parts, "_PACKED_CHUNK_SIZE", _CHUNK_SIZE >> 2)
        monkeypatch.setattr(parts, "_LEAST_PART_SIZE", _CHUNK_SIZE >> 2)
        monkeypatch.setattr(unpack, "RUN_SIZE", _RUN_SIZE)
        self.parts: Counter[PartSource | BackwardSource] = Counter()
        """How many parts of each file a thread has read ahead."""
        self.written: Counter[str] = Counter()
        """How many runs were written, by the name of the thread."""
        write = CleanedOutput.write

        def write_counted(output: CleanedOutput, kept: FilteredRun, aborted: Sequence[AbortedTxn]) -> None:
            self.written[threading.current_thread().name] += 1
            write(output, kept, aborted)

        for kind in (PartSource, BackwardSource):
            monkeypatch.setattr(kind, "next_part", self._counted(kind.next_part))
        monkeypatch.setattr(CleanedOutput, "write", write_counted)

    def _counted(self, next_part: Callable[..., FilePart | None]) -> Callable[..., FilePart | None]:
        def next_counted(source: PartSource | BackwardSource, memory: PartMemory) -> FilePart | None:
            found = next_part(source, memory)
            if found is not None and threading.current_thread().name == "stratalog-runs":
                self.parts[source] += 1
            return found

        return next_counted

    def check_used(self) -> None:
        """Otherwise the test shows nothing about what is read ahead or written behind."""
        assert max(self.parts.values(), default=0) > 1
        assert self.written["stratalog-cleaned"] > 3


def forwards_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No dirty part is read backwards in this test."""
    monkeypatch.setattr(NewestFirst, "read", lambda *_: None)


class Attempts:
    """Notes what came of each attempt to read a dirty part backwards."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.results: list[Spooled | None] = []
        read = NewestFirst.read

        def noted(newest_first: NewestFirst, *arguments: object) -> Spooled | None:
            self.results.append(read(newest_first, *arguments))  # type: ignore[arg-type]
            return self.results[-1]

        monkeypatch.setattr(NewestFirst, "read", noted)

    @property
    def successes(self) -> list[bool]:
        return [found is not None for found in self.results]
