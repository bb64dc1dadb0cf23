"""The folders of tasks are found and removed; links and other folders stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from stratalog.files.entries import Path as AnyPath
from stratalog.log.task_folders import FOLDER_PREFIX, remove_task_folders, task_folders


@pytest.fixture
def left(tmp_path: Path) -> Path:
    folder = tmp_path / "t-0" / f"{FOLDER_PREFIX}1"
    (folder / "0-1").mkdir(parents=True)
    (folder / "0-1" / "a.log.cleaned").write_bytes(b"a record")
    return folder


def test_only_folders_of_tasks_are_removed(left: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_bytes(b"kept")
    (left / "link").symlink_to(precious)
    (left.parent / f"{FOLDER_PREFIX}2").symlink_to(precious)
    (left.parent / "by hand").mkdir()
    (left.parent / f"{FOLDER_PREFIX}3").write_bytes(b"a file")

    assert task_folders(Disk(), str(left.parent)) == [str(left)]
    assert remove_task_folders(Disk(), str(left.parent)) == [str(left)]

    assert not left.exists()
    assert len([*left.parent.iterdir()]) == 3
    assert (precious / "file").read_bytes() == b"kept"


def test_a_folder_that_is_still_written_to_is_left_to_the_next_run(left: Path) -> None:
    class Busy(Disk):
        def remove_directory(self, path: AnyPath) -> bool:
            raise DiskError(path, "Directory not empty")

    assert remove_task_folders(Busy(), str(left.parent)) == []
    assert left.exists()
