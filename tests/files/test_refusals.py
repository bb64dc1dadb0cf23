"""What the system refuses, as errors that name the file and what to do."""

from __future__ import annotations

import errno
import pickle
from pathlib import Path

import pytest

from stratalog.buffers import aligned_buffer
from stratalog.errors import DiskError
from stratalog.files.disk import Disk

disk = Disk()


def test_a_refusal_says_what_where_why_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "gone"

    with pytest.raises(DiskError, match=r"gone: could not open it: No such file.*Check the path") as caught:
        disk.open_read(path)

    assert caught.value.path == str(path)
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_a_directory_that_is_not_made_is_told_in_whole_words(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match=r"b: could not create it: No such file or directory\."):
        Disk().make_directory(tmp_path / "a" / "b")


def test_every_refusal_of_the_system_is_ours(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="read at byte 7 of"):
        disk.read_into(tmp_path, aligned_buffer(10), 7)  # a directory opens, but does not read
    with pytest.raises(DiskError, match="get the size of"):
        disk.size(tmp_path / "gone")
    with pytest.raises(DiskError, match="append to"):
        disk.append(tmp_path, b"x")
    with pytest.raises(DiskError, match="list"):
        disk.list_directory(tmp_path / "gone")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_device_is_named_as_such() -> None:
    with pytest.raises(DiskError, match=r"No space left on device\. Free some space"):
        disk.append("/dev/full", b"x")


def test_errors_and_disks_travel_to_other_processes() -> None:
    error = pickle.loads(pickle.dumps(DiskError("a/b", "is full.", errno.ENOSPC)))

    assert (error.path, error.errno, str(error)) == ("a/b", errno.ENOSPC, "a/b: is full.")
    assert isinstance(pickle.loads(pickle.dumps(Disk(require_owner=True))), Disk)
