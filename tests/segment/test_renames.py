"""The files of a segment: renamed, moved, opened from a listing."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from stratalog.errors import DiskError, UsageError
from stratalog.files import descriptors
from stratalog.files.disk import Disk
from stratalog.files.names import FileKind
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reader import SegmentReader
from stratalog.segment.txn_index import AbortedTxn
from tests.segment.making import NOW, CountingDisk, ManualClock, append, config_of, offsets_in, records


def test_renaming_makes_no_index_and_leaves_none_behind(segment: LogSegment, tmp_path: Path) -> None:
    segment.change_suffixes("", ".deleted")
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000040.log.deleted"]

    segment.change_suffixes(".deleted", "")
    append(segment, records(40, "hello"))
    segment.append_aborted(AbortedTxn(1, 40, 40, 41))
    segment.change_suffixes("", ".swap")

    kinds = ("index", "log", "timeindex", "txnindex")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"00000000000000000040.{kind}.swap" for kind in kinds
    ]
    append(segment, records(41, "hello"))
    assert segment.reader.read_next_offset() == 42
    with pytest.raises(UsageError):
        segment.change_suffixes("", ".deleted")
    segment.delete()
    assert not segment.reader.exists
    assert list(tmp_path.iterdir()) == []


class NamedSlowly(SegmentReader):
    """A segment whose directory is renamed while its name is read for the first time."""

    __slots__ = ("mover",)
    mover: threading.Thread | None

    def path_in(self, directory: str, kind: FileKind, suffix: str) -> str:
        path = super().path_in(directory, kind, suffix)
        if self.mover is not None and self.mover.ident is None:
            self.mover.start()
            self.mover.join(0.2)  # as far as it gets
        return path


def test_a_name_that_is_asked_for_during_a_rename_is_the_new_one(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    reader = NamedSlowly(Disk(), tmp_path / "old", 0, config_of(), size=0)
    segment = LogSegment(Disk(), reader, ManualClock())
    reader.mover = threading.Thread(target=segment.update_directory, args=(tmp_path / "new",))

    _ = segment.log_path
    reader.mover.join()

    assert segment.log_path == str(tmp_path / "new" / f"{0:020d}.log")


def test_whoever_reads_a_segment_that_is_renamed_reads_on(segment: LogSegment) -> None:
    batch = records(40, "hello")
    append(segment, batch)
    stop = threading.Event()
    problems: list[Exception] = []

    def read() -> None:
        while not stop.is_set():
            try:
                found = segment.reader.read(40, 1000)
                if found is None or segment.reader.read_bytes(found.position, found.size) != batch:
                    problems.append(AssertionError("not the record"))
            except DiskError as error:
                problems.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(50):
        segment.change_suffixes("", ".deleted")
        segment.change_suffixes(".deleted", "")
    stop.set()
    for reader in readers:
        reader.join()
    assert problems == []


def test_a_segment_is_found_where_its_directory_was_moved(segment: LogSegment, tmp_path: Path) -> None:
    append(segment, records(40, "hello"))
    old, new = tmp_path, tmp_path.with_name(tmp_path.name + "-moved")
    Disk().rename(old, new)

    segment.update_directory(new)

    assert offsets_in(segment, segment.reader.read(40, 1000)) == [40]
    append(segment, records(41, "hello"))
    assert (new / "00000000000000000040.index").exists()
    Disk().rename(new, old)


def test_without_a_timestamp_the_time_of_the_file_counts(segment: LogSegment) -> None:
    append(segment, records(40, "a", timestamp=-1))
    segment.set_modified(NOW)

    assert segment.reader.max_timestamp == -1
    assert segment.largest_timestamp == NOW
    append(segment, records(41, "a", timestamp=5))
    assert segment.largest_timestamp == 5


def test_a_listing_is_all_that_opening_needs(segment: LogSegment, tmp_path: Path) -> None:
    disk = CountingDisk()
    has = (True, True, False)

    LogSegment.open(disk, tmp_path, 40, segment.reader.config, segment.clock, size=0, has=has)

    assert disk.asked == []


def test_hundreds_of_segments_share_few_open_files(tmp_path: Path) -> None:
    batch = records(0, "a")
    for number in range(400):
        (tmp_path / f"{number:020d}.log").write_bytes(batch)
    opened = [
        LogSegment.open(
            Disk(),
            tmp_path,
            number,
            config_of(),
            ManualClock(),
            size=len(batch),
            has=(False, False, None),
        )
        for number in range(400)
    ]

    assert all(segment.reader.translate_offset(0) is not None for segment in opened)
    assert descriptors.shared.open_count <= descriptors.MAX_OPEN < 400
