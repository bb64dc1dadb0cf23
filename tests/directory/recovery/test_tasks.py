"""What is read of logs: each byte once, by any number of readers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stratalog.directory.recovery.result import Outcome
from stratalog.files.disk import Disk, ReadFile
from tests.directory.recovery.recovering import RECOVERY_POINTS, copy_of, files_of, recover_one
from tests.fixtures import catalog


def test_all_reads_every_byte_of_every_log(clean: Path) -> None:
    report = recover_one(clean, scan_all=True)

    logs = {
        part.name: sum(path.stat().st_size for path in (clean / part.name).glob("*.log"))
        for part in report.partitions
    }
    assert {part.name: part.scanned_bytes for part in report.partitions} == logs


class ReadingDisk(Disk):
    """A disk that notes which bytes of which log were read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: dict[str, list[tuple[int, int]]] = {}

    def read_into(self, source, buffer, position, identity=None):  # type: ignore[no-untyped-def]
        size = super().read_into(source, buffer, position, identity)
        self._note(source.path if isinstance(source, ReadFile) else os.fspath(source), position, size)
        return size

    def read_at(self, path, size, position, identity=None):  # type: ignore[no-untyped-def]
        data = super().read_at(path, size, position, identity)
        self._note(os.fspath(path), position, len(data))
        return data

    def _note(self, path: str, position: int, size: int) -> None:
        if path.endswith(".log") and "__cluster_metadata" not in path:
            self.reads.setdefault(path, []).append((position, position + size))


@pytest.mark.parametrize("lost", [None, ".index", ".timeindex", ".snapshot"])
def test_no_byte_of_a_log_is_read_twice(killed: Path, lost: str | None) -> None:
    """Whatever a segment is needed for: a check, an index, the producers of later segments."""
    (killed / RECOVERY_POINTS).unlink()
    if lost is not None:
        for path in killed.glob(f"*-0/*{lost}"):
            path.unlink()
    disk = ReadingDisk()

    report = recover_one(killed, disk=disk)

    assert report.outcome is Outcome.RECOVERED
    logs = [path for path in killed.glob("*-0/*.log") if path.parent.name != "__cluster_metadata-0"]
    assert {path: reads for path, reads in disk.reads.items() if reads != [(0, 0)]} == {
        str(path): [(0, path.stat().st_size)] for path in logs if path.stat().st_size
    }


def test_of_a_clean_directory_only_the_ends_of_logs_are_read(clean: Path) -> None:
    disk = ReadingDisk()

    recover_one(clean, disk=disk)

    for partition in catalog.partitions("4.3.1", "clean"):
        log = clean / partition.name / partition.logs[-1].name
        entries = log.with_suffix(".index").read_bytes()
        last_indexed = int.from_bytes(entries[-4:], "big")
        if partition.name != "__cluster_metadata-0" and log.stat().st_size:
            assert min(start for start, _ in disk.reads[str(log)]) == last_indexed


def test_more_readers_find_the_same(killed: Path, tmp_path: Path) -> None:
    other = copy_of("killed", tmp_path / "other")

    one, many = recover_one(killed, readers=1), recover_one(other, readers=5)

    assert one.partitions == many.partitions
    assert files_of(killed) == files_of(other)
