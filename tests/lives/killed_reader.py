"""A reader beside a writer that is killed: it follows all topics, and records what it saw."""

from __future__ import annotations

import errno
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import stratalog
from stratalog.errors import (
    DiskError,
    LogClosedError,
    OffsetOutOfRangeError,
    UsageError,
)
from tests.lives.journal import Journal, found_in
from tests.lives.killed_plan import LONGEST_S, POLICIES, SMALL, Plan
from tests.lives.known import Found

_NOT_THERE = (errno.ENOENT, errno.ENOTDIR)


def read(plan: Plan) -> None:
    """Follow all three topics through views until killed; record what comes, and in which run."""
    journal = Journal(plan.journal)
    try:
        readers = [_Following(plan, journal, topic) for topic in POLICIES]
        ends = time.monotonic() + LONGEST_S
        while time.monotonic() < ends:
            for reader in readers:
                reader.look()
    except BaseException:  # any error must reach the judge
        journal.note("error", traceback.format_exc())


class _Following:
    """Read one topic from where the last look ended; if that offset is gone, begin a new run."""

    def __init__(self, plan: Plan, journal: Journal, topic: str) -> None:
        self._plan, self._journal, self._topic = plan, journal, topic
        self._run, self._position = 0, -1

    def look(self) -> None:
        for directory in self._plan.directories:
            path = Path(directory, f"{self._topic}-0")
            try:
                with stratalog.open_log(path, read_only=True, config=SMALL) as view:
                    self._read(view)
            except OffsetOutOfRangeError:
                self._run, self._position = self._run + 1, -1
            except UsageError:
                continue  # it is in the other directory
            except DiskError as error:
                if error.errno not in _NOT_THERE:
                    raise
            except LogClosedError:
                continue

    def _read(self, view: stratalog.PartitionLog) -> None:
        if self._position > view.end_offset:
            self._run, self._position = self._run + 1, -1
        start = view.start_offset if self._position < 0 else self._position
        for record in view.records(start):
            found = found_in(record, None)
            self._journal.note("saw", self._topic, self._run, found)
            self._position = record.offset + 1


def runs_of(lines: Sequence[Sequence[Any]]) -> Iterator[tuple[str, list[Found]]]:
    """What a reader saw, run by run."""
    runs: dict[tuple[str, int], list[Found]] = {}
    for kind, *fields in lines:
        if kind == "saw":
            topic, run, found = fields
            runs.setdefault((topic, run), []).append(Found(*found))
    for (topic, _), found in runs.items():
        yield topic, found
