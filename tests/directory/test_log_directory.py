"""One log directory of a session: its clean-shutdown file and its lock."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from stratalog.errors import LogDirLockedError
from tests.directory.recovery.recovering import EPOCH_OF_CLEAN, MARKER
from tests.directory.sessions import session_of


def test_the_clean_shutdown_file_goes_before_the_first_change_and_comes_back_with_its_epoch(
    clean: Path,
) -> None:
    with session_of(clean) as session:
        (directory,) = session.directories
        directory.before_change()
        assert not (clean / MARKER).exists()
        session.put_back(directory)

    assert json.loads((clean / MARKER).read_text())["brokerEpoch"] == EPOCH_OF_CLEAN


def test_beside_an_epoch_a_directory_that_lost_its_own_says_none(clean: Path, tmp_path: Path) -> None:
    second = Path(shutil.copytree(clean, tmp_path / "second"))

    with session_of(clean, second) as session:
        cut, _ = session.directories
        cut.before_change()
        cut.forget_epoch()
        session.put_back(cut)

    # A broker reads -1 as "none seen yet", and would use the other's epoch.
    assert json.loads((clean / MARKER).read_text()) == {"version": 0}


def test_no_clean_shutdown_file_is_written_where_somebody_else_has_the_lock_by_now(clean: Path) -> None:
    with session_of(clean) as session:
        (directory,) = session.directories
        directory.before_change()
        (clean / ".lock").unlink()  # and a broker starts

        with pytest.raises(LogDirLockedError):
            session.put_back(directory)

    assert not (clean / MARKER).exists()
