"""Stamps: a task notices that it sees another file than the one that was planned."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from stratalog.errors import OtherFileError
from stratalog.files.reading import DiskReader
from stratalog.files.stamps import FileStamp


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"planned")
    return path


def test_the_same_file_passes_on_another_machine(file: Path) -> None:
    stamp = pickle.loads(pickle.dumps(FileStamp.of(DiskReader(), str(file))))

    stamp.check(DiskReader())


def test_a_file_of_another_size_is_refused_and_both_are_described(file: Path) -> None:
    stamp = FileStamp.of(DiskReader(), str(file))
    os.truncate(file, 3)
    os.utime(file, ns=(0, stamp.mtime_ms * 1_000_000))

    with pytest.raises(OtherFileError, match=r"not the file .* 3 bytes, .* 7 bytes, .* same files") as caught:
        stamp.check(DiskReader())

    assert caught.value.path == str(file)


def test_a_file_of_the_same_size_that_was_changed_at_another_time_is_refused(file: Path) -> None:
    stamp = FileStamp.of(DiskReader(), str(file))
    os.utime(file, ns=(0, (stamp.mtime_ms + 1) * 1_000_000))

    with pytest.raises(OtherFileError, match="not the file"):
        stamp.check(DiskReader())


def test_a_file_that_is_not_there_is_refused(file: Path) -> None:
    stamp = FileStamp.of(DiskReader(), str(file))
    file.unlink()

    with pytest.raises(OtherFileError, match="no file"):
        stamp.check(DiskReader())
