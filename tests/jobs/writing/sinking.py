"""Writes without Spark, to any disk, and what is in the logs then, read byte by byte."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path, PurePath

import pyarrow as pa

from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from stratalog.jobs.writing.commit import Committer, WriteReport
from stratalog.jobs.writing.options import WriteOptions
from stratalog.jobs.writing.stage import Staged, begin_write, stage_rows
from stratalog.jobs.writing.target import find_target
from tests import naive
from tests.log.model import ManualClock

_numbers = count()
Rows = Mapping[str, list[object]]


class NoLock(DirectoryLock):
    """The lock of a simulated disk, which nobody else holds."""

    def acquire(self, *, is_trial: bool = False) -> None:
        pass

    def check(self) -> None:
        pass

    def release(self) -> None:
        pass


class Writing:
    """One write to a directory: tasks are staged one after the other, then committed or given up."""

    def __init__(self, directory: str, *, disk: Disk | None = None, **options: str) -> None:
        self.disk = Disk() if disk is None else disk
        self.clock = ManualClock()
        self.name = f"{next(_numbers):032x}"
        self.target = find_target(self.disk, WriteOptions.parse({"path": directory, **options}))
        make_lock = DirectoryLock if disk is None else NoLock
        self.committer = Committer(self.disk, self.target, self.name, clock=self.clock, make_lock=make_lock)
        self.staged: list[Staged] = []
        self._tasks = count()
        begin_write(self.disk, directory, self.name)

    def task(self, *batches: Rows) -> None:
        """What one task does with these Arrow batches."""
        turn = next(self._tasks)
        self.staged += stage_rows(
            self.disk,
            self.target,
            [arrow(rows) for rows in batches],
            write=self.name,
            attempt=str(turn),
            turn=turn,
            clock=self.clock,
        )

    def commit(self, **stream: object) -> WriteReport:
        report = self.committer.commit(self.staged, **stream)  # type: ignore[arg-type]
        self.committer.discard()
        return report


def write(directory: str, *tasks: Rows, disk: Disk | None = None, **options: str) -> WriteReport:
    """A write from end to end, one batch for each task."""
    writing = Writing(directory, disk=disk, **options)
    for rows in tasks:
        writing.task(rows)
    return writing.commit()


def arrow(rows: Rows) -> pa.RecordBatch:
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "partition": pa.int32(),
        "topic": pa.string(),
        "timestamp": pa.timestamp("us", "UTC"),
        "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    }
    return pa.RecordBatch.from_pydict({name: pa.array(column, types[name]) for name, column in rows.items()})


def values(*found: bytes | None) -> Rows:
    return {"value": list(found)}


def records_of(contents: Mapping[str, bytes], partition: str) -> list[naive.Record]:
    """The records of a partition's directory, without gaps; each segment begins as its name says."""
    records: list[naive.Record] = []
    for path in sorted(map(PurePath, contents)):
        if path.parent.name == partition and path.suffix == ".log":
            found = naive.decode(contents[str(path)], _no_codec)
            assert not found or found[0].offset == int(path.stem)
            assert not records or not found or found[0].offset == records[-1].offset + 1
            records += found
    return records


def contents_of(directory: Path) -> dict[str, bytes]:
    """All files below a directory of the real disk, by path."""
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def offsets_and_values(contents: Mapping[str, bytes], partition: str) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in records_of(contents, partition)]


def by_partition(contents: Mapping[str, bytes], topic: str) -> dict[int, list[bytes | None]]:
    """The values of a topic, by partition."""
    folders = sorted({PurePath(path).parent.name for path in contents})
    own = [folder for folder in folders if folder.rpartition("-")[0] == topic]
    return {
        int(folder.rpartition("-")[2]): [record.value for record in records_of(contents, folder)]
        for folder in own
    }


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def staged_in(directory: Path) -> list[str]:
    """The files that exist only while a write has not ended."""
    return [name for name in names_in(directory) if name.startswith("stratalog-write-")]


def _no_codec(codec: int, data: bytes, magic: int) -> bytes:
    raise AssertionError(f"codec {codec} in a batch of magic {magic} of {len(data)} bytes")
