"""A stream without Spark, and the log that it follows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stratalog.jobs.reading.following import Follower
from stratalog.jobs.reading.offsets import StreamOffset
from stratalog.jobs.reading.omissions import Omission
from stratalog.jobs.reading.options import ReadOptions
from stratalog.log.api.partition_log import PartitionLog
from tests.jobs.reading.making import rows_of

SMALL_SEGMENTS = {"internal.segment.bytes": 1000, "index.interval.bytes": 100}
OLD_ID, NEW_ID = "CVmmc5E3Svq-PtfZ062cfg", "b3JkZXJzLW1hZGUtYW5ldw"


class Clock:
    """Stands still until it is turned."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


class Stream:
    """Triggers a follower as Spark does: only the text of its offsets outlives it."""

    def __init__(self, path: Path, *, waits: Callable[[float], None] | None = None, **options: str) -> None:
        self.clock = Clock()
        self._waits = waits or (lambda _: None)
        self._path, self._options = path, {"startingOffsets": "earliest"} | options
        self.restart()
        self.checkpoint = self._json(self.follower.initial())

    def restart(self, **options: str) -> None:
        self._options |= options
        parsed = ReadOptions.parse({"path": str(self._path)} | self._options, streaming=True)
        self.omitted: list[Omission] = []
        self.follower = Follower(
            parsed, clock=self.clock, wait=self._waits, cores=2, on_omission=self.omitted.append
        )

    def end(self, **limits: int) -> str:
        """Where the next trigger ends, as Spark writes it down."""
        return self._json(self.follower.advance(self._offset(self.checkpoint), **limits))

    def read(self, end: str) -> list[dict[str, Any]]:
        tasks = self.follower.plan(self._offset(self.checkpoint), self._offset(end))
        return rows_of(tasks, ("topic", "partition", "offset", "value"))

    def trigger(self, **limits: int) -> list[dict[str, Any]]:
        end = self.end(**limits)
        rows = self.read(end)
        self.checkpoint = end
        return rows

    def values(self, **limits: int) -> list[bytes]:
        return [row["value"] for row in self.trigger(**limits)]

    @staticmethod
    def _json(offset: StreamOffset) -> str:
        return json.dumps(offset.to_json())

    @staticmethod
    def _offset(text: str) -> StreamOffset:
        return StreamOffset.from_json(json.loads(text))


def append(log: PartitionLog, *numbers: int) -> list[bytes]:
    values = [b"value %d" % number for number in numbers]
    for value in values:
        log.append(value)
    return values
