"""The scans of a recovery on an engine of the caller: a worker must see the driver's files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from stratalog.directory.recovery.result import Outcome
from stratalog.engine.threads import ThreadEngine
from stratalog.files.entries import ExpectedFile, FileStatus
from stratalog.files.entries import Path as AnyPath
from stratalog.files.reading import DiskReader
from tests.directory.recovery.recovering import MARKER, copy_of, damage, files_of, recover


class Elsewhere(DiskReader):
    """The disk of another machine, which has other files under the same paths."""

    def __init__(self, here: Path, there: Path) -> None:
        super().__init__()
        self._here, self._there = str(here), str(there)

    def there(self, path: AnyPath) -> str:
        return os.fspath(path).replace(self._here, self._there, 1)

    def status(self, path: AnyPath) -> FileStatus | None:
        return super().status(self.there(path))


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    return copy_of("killed", tmp_path / "killed")


def test_an_engine_leaves_the_bytes_that_threads_leave(killed: Path, tmp_path: Path) -> None:
    damage(killed / "rolled-0" / "00000000000000000000.log")
    other = Path(shutil.copytree(killed, tmp_path / "other"))

    recover(killed, scan_all=True, keeps_cuts=False)
    recover(other, scan_all=True, keeps_cuts=False, engine=ThreadEngine(1))

    assert files_of(other) == files_of(killed)


def test_nothing_is_cut_because_of_a_worker_that_has_another_replica_under_this_path(
    killed: Path, tmp_path: Path
) -> None:
    replica = Path(shutil.copytree(killed, tmp_path / "replica"))
    log = replica / "rolled-0" / "00000000000000000000.log"
    damage(log)
    second = copy_of("killed", tmp_path / "second")
    (second / "meta.properties").unlink()
    before = files_of(killed)

    found, fine = recover(
        killed, second, scan_all=True, engine=ThreadEngine(1, disk=Elsewhere(killed, replica))
    ).directories

    assert found.outcome is Outcome.FAILED
    assert "not the file for which the work was planned" in str(found.error)
    logs = {name: data for name, data in before.items() if name.endswith(".log")}
    assert {name: data for name, data in files_of(killed).items() if name in logs} == logs
    assert not (killed / MARKER).exists()
    assert fine.outcome is Outcome.RECOVERED


def test_a_worker_with_a_whole_index_does_not_vouch_for_the_drivers(killed: Path, tmp_path: Path) -> None:
    replica = Path(shutil.copytree(killed, tmp_path / "replica"))
    index = killed / "rolled-0" / "00000000000000000000.timeindex"
    index.write_bytes(bytes(index.stat().st_size))

    class Reading(Elsewhere):
        """Also reads the other machine's bytes."""

        def read_at(
            self, path: AnyPath, size: int, position: int, identity: ExpectedFile | None = None
        ) -> bytes:
            return super().read_at(self.there(path), size, position, identity)

    (found,) = recover(
        killed, scan_all=True, engine=ThreadEngine(1, disk=Reading(killed, replica))
    ).directories

    assert found.outcome is Outcome.FAILED
    assert "00000000000000000000.timeindex" in str(found.error)
    assert not (killed / MARKER).exists()
