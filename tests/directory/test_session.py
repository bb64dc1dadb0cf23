"""The session over the log directories of a node: its order, what it refuses, and what it leaves."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest

from stratalog.directory.session import Unclean, check_session
from stratalog.errors import LogDirLockedError, NeedsRecoveryError, NotALogDirectoryError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock, is_locked
from tests.directory.recovery.recovering import EPOCH_OF_CLEAN, MARKER, files_of
from tests.directory.sessions import session_of


def test_a_session_with_nothing_to_do_changes_nothing(clean: Path) -> None:
    before = files_of(clean)

    with session_of(clean):
        assert is_locked(clean)

    assert files_of(clean) == before
    assert not is_locked(clean)


def test_what_was_not_shut_down_cleanly_is_refused_with_all_directories_to_recover(
    killed: Path, clean: Path, tmp_path: Path
) -> None:
    second = Path(shutil.copytree(killed, tmp_path / "second"))
    before = files_of(killed)

    with pytest.raises(NeedsRecoveryError) as caught, session_of(killed, clean, second):
        pass

    assert f"Run `stratalog recover {killed} {clean} {second}` first" in str(caught.value)
    assert files_of(killed) == before
    assert not any(map(is_locked, (killed, clean, second)))


def test_a_dry_run_refuses_the_same_and_takes_no_lock(killed: Path) -> None:
    with pytest.raises(NeedsRecoveryError, match="kafka_cleanshutdown is missing"):
        check_session(Disk(), [killed], unclean=Unclean.REFUSE)

    assert check_session(Disk(), [killed], unclean=Unclean.RECOVER) == [str(killed)]
    assert not (killed / ".lock").exists()


def test_what_was_not_shut_down_cleanly_is_recovered_under_the_sessions_lock(killed: Path) -> None:
    with session_of(killed, unclean=Unclean.RECOVER) as session:
        assert session.recovery is not None
        assert is_locked(killed)
        assert json.loads((killed / MARKER).read_text())["brokerEpoch"] == -1

    assert not is_locked(killed)


def test_records_that_are_gone_without_a_cut_were_not_told_by_a_manager(
    killed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = killed / "rolled-0" / "00000000000000000088.log"
    log.write_bytes(b"")

    with caplog.at_level(logging.WARNING), session_of(killed, unclean=Unclean.RECOVER):
        pass

    (message,) = [each for each in caplog.messages if each.startswith(f"{log.parent}: ")]
    assert "Its index shows that it had records up to offset 99; it ends at offset 88." in message


def test_nothing_is_recovered_while_another_directory_is_in_use(killed: Path, clean: Path) -> None:
    before = files_of(killed)

    with (
        DirectoryLock(clean),
        pytest.raises(LogDirLockedError),
        session_of(killed, clean, unclean=Unclean.RECOVER),
    ):
        pass

    assert files_of(killed) == before
    assert not is_locked(killed)


def test_what_is_not_a_log_directory_is_refused_before_anything_is_locked(
    clean: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(NotALogDirectoryError), session_of(clean, tmp_path / "empty"):
        pass

    assert not (clean / ".lock").exists()
    assert [*(tmp_path / "empty").iterdir()] == []


def test_a_directory_that_is_named_twice_is_refused(clean: Path) -> None:
    with pytest.raises(UsageError, match="named twice"):
        session_of(clean, clean / ".." / "clean")


def test_a_directory_that_is_recovered_beside_an_epoch_says_none_though_nothing_else_is_done(
    clean: Path, tmp_path: Path
) -> None:
    unclean = Path(shutil.copytree(clean, tmp_path / "unclean"))
    (unclean / MARKER).unlink()

    with session_of(unclean, clean, unclean=Unclean.RECOVER):
        pass

    # With -1 a broker would use the epoch of the other one, as if no record could be lost here.
    assert json.loads((unclean / MARKER).read_text()) == {"version": 0}
    assert json.loads((clean / MARKER).read_text())["brokerEpoch"] == EPOCH_OF_CLEAN
