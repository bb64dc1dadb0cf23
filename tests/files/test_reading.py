"""The reading half of the door to the disk: it has nothing that changes a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.clock import system_clock
from stratalog.config import LogConfig
from stratalog.engine.measuring import ReadingDisk
from stratalog.files.disk import Disk, changing
from stratalog.files.reading import DiskReader
from stratalog.files.simulated import SimulatedDisk
from stratalog.segment.segment import LogSegment

CHANGES = {"append", "create", "delete", "make_directory", "remove_directory", "rename", "replace"}
CHANGES |= {"set_modified", "sync", "sync_directory", "truncate", "write_at"}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("kind", [DiskReader, ReadingDisk])
def test_the_reading_half_has_nothing_that_changes_a_file(kind: type) -> None:
    assert not public(kind) & CHANGES


def test_a_disk_is_the_reading_half_and_what_changes() -> None:
    assert public(Disk) - public(DiskReader) == CHANGES
    assert issubclass(SimulatedDisk, Disk)


def test_a_counting_reader_hands_each_question_to_its_disk() -> None:
    """One that it answered by itself would be asked of this machine, under a simulated disk's names."""
    made_of_others = {"exists", "read_file"}
    asked = {name for name in vars(ReadingDisk) if not name.startswith("_")}

    assert public(DiskReader) - {"namespace"} - made_of_others <= asked


def test_a_reader_reads_what_a_disk_wrote(tmp_path: Path) -> None:
    Disk().append(tmp_path / "file", b"0123456789")
    reader = DiskReader()

    assert reader.read_at(tmp_path / "file", 3, 4) == b"456"
    assert [entry.name for entry in reader.list_directory(tmp_path)] == ["file"]
    assert reader.read_file(tmp_path / "file") == b"0123456789"


def test_a_segment_opened_for_reading_cannot_be_changed(tmp_path: Path) -> None:
    LogSegment.create(Disk(), tmp_path, 0, LogConfig(), system_clock)
    segment = LogSegment.open(DiskReader(), tmp_path, 0, LogConfig(), system_clock)

    with pytest.raises(TypeError, match="opened for reading"):
        segment.delete()
    with pytest.raises(TypeError, match="opened for reading"):
        segment.flush()
    assert (tmp_path / "00000000000000000000.log").exists()


def test_the_changing_half_is_asked_of_a_whole_disk_only() -> None:
    disk = Disk()

    assert changing(disk) is disk
    with pytest.raises(TypeError):
        changing(DiskReader())
