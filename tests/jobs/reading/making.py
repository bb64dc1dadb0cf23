"""What the tests of reading share: a made log, and a plain way to run a plan."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stratalog.jobs.reading.omissions import Omission, joined_up
from stratalog.jobs.reading.options import ReadOptions
from stratalog.jobs.reading.plan import plan_read
from stratalog.jobs.reading.read import read_task
from stratalog.jobs.reading.split import ReadTask
from stratalog.log.new_records import NewRecord
from tests.fixtures.catalog import Partition

T0 = 1_700_000_000_000
COLUMNS = ("offset", "key", "value")
TRIMMED_START = 17  # of the fixture's topic `trimmed`


@dataclass(frozen=True, kw_only=True)
class Made:
    """A partition's directory, and the records that were appended to it: offsets are their indexes."""

    path: Path
    records: Sequence[NewRecord]

    def rows(self, offsets: Iterable[int]) -> list[dict[str, Any]]:
        """What a read of these offsets must give for COLUMNS."""
        return [
            {"offset": each, "key": self.records[each].key, "value": self.records[each].value}
            for each in offsets
        ]

    @property
    def all_rows(self) -> list[dict[str, Any]]:
        return self.rows(range(len(self.records)))


def plan(path: Path, *, cores: int = 2, **options: str) -> list[ReadTask]:
    return plan_read(ReadOptions.parse({"path": str(path)} | options), cores=cores)


def rows_of(tasks: Iterable[ReadTask], columns: Sequence[str] = COLUMNS) -> list[dict[str, Any]]:
    return [row for task in tasks for batch in read_task(task, columns) for row in batch.to_pylist()]


def read(path: Path, *, columns: Sequence[str] = COLUMNS, **options: str) -> list[dict[str, Any]]:
    return rows_of(plan_read(ReadOptions.parse({"path": str(path)} | options), cores=2), columns)


def read_omitting(path: Path, **options: str) -> tuple[list[int], list[Omission]]:
    """The offsets that a read gives, and what it says that it left out."""
    omitted: list[Omission] = []
    asked = ReadOptions.parse({"path": str(path)} | options)
    tasks = plan_read(asked, cores=2, on_omission=omitted.append)
    return offsets_of(tasks, omitted), joined_up(omitted)


def offsets_of(tasks: Iterable[ReadTask], omitted: list[Omission]) -> list[int]:
    """The offsets that tasks read; what they leave out is added to the list."""
    batches = (batch for task in tasks for batch in read_task(task, ("offset",), on_omission=omitted.append))
    return [offset for batch in batches for offset in batch.column(0).to_pylist()]


def batches_of(log: Path) -> Iterator[tuple[bytes, int, int]]:
    """(bytes, base offset, last offset) of each whole batch, by the format's own fields."""
    data, position = log.read_bytes(), 0
    while position + 61 <= len(data):
        base_offset, length = struct.unpack_from(">qi", data, position)
        if position + 12 + length > len(data):
            return
        (last_delta,) = struct.unpack_from(">i", data, position + 23)
        yield data[position : position + 12 + length], base_offset, base_offset + last_delta
        position += 12 + length


def kafka_rows(partition: Partition) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(batch, record) for all that a log directory's reader may see of a fixture, by Kafka's classes."""
    logs = {log.name for log in partition.logs}
    for batch in partition.batches():
        if batch["file"] in logs:
            for record in batch["records"]:
                if partition.name != "trimmed-0" or record["offset"] >= TRIMMED_START:
                    yield batch, record


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read everything: so root becomes another user for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
