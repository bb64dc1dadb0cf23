"""The clean-shutdown file while a directory is changed, and the note that replaces it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.directory.clean_shutdown import CleanShutdown
from stratalog.directory.clean_state import NOTE, CleanState, Note
from stratalog.directory.recovery.recover import recover_directories
from stratalog.directory.session import Session, Unclean
from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from tests.directory.recovery.recovering import EPOCH_OF_CLEAN, MARKER, copy_of


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    return copy_of("clean", tmp_path / "clean")


def looked_at(directory: Path, disk: Disk | None = None) -> CleanState:
    state = CleanState(Disk() if disk is None else disk, str(directory))
    state.look()
    return state


def killed_in_a_session(directory: Path, *, appends: bool = False) -> None:
    """A session that has removed the clean-shutdown file, and does not end."""
    with Session([directory], unclean=Unclean.REFUSE, appends=appends) as session:
        session.directories[0].before_change()


def epoch_after_recovery(directory: Path) -> object:
    recover_directories([str(directory)])
    assert not (directory / NOTE).exists()
    return json.loads((directory / MARKER).read_text())["brokerEpoch"]


def test_what_the_file_said_is_known_after_a_kill(clean: Path) -> None:
    looked_at(clean).remove()

    assert not (clean / MARKER).exists()
    assert looked_at(clean).note == Note(was_clean=True, said=CleanShutdown(broker_epoch=EPOCH_OF_CLEAN))


def test_a_retention_that_was_killed_does_not_cost_the_epoch(clean: Path) -> None:
    killed_in_a_session(clean)

    assert epoch_after_recovery(clean) == EPOCH_OF_CLEAN


def test_appends_that_were_killed_cost_the_epoch(clean: Path) -> None:
    killed_in_a_session(clean, appends=True)

    assert epoch_after_recovery(clean) == -1


def test_a_note_from_before_does_not_vouch_for_appends(clean: Path) -> None:
    note = {"version": 0, "was_clean": True, "broker_epoch": EPOCH_OF_CLEAN, "has_cut": False}
    (clean / NOTE).write_text(json.dumps(note))  # as a kill right after the clean-shutdown file leaves it

    killed_in_a_session(clean, appends=True)

    assert epoch_after_recovery(clean) == -1


def test_a_cut_costs_the_epoch_though_the_run_was_killed_behind_it(clean: Path) -> None:
    with Session([clean], unclean=Unclean.REFUSE) as session:
        session.directories[0].before_change()
        session.directories[0].forget_epoch()

    assert epoch_after_recovery(clean) == -1


def test_a_file_that_cannot_be_synced_is_not_left(clean: Path) -> None:
    class Failing(Disk):
        def replace(self, path: object, data: object) -> None:
            super().replace(path, data)  # type: ignore[arg-type]
            raise DiskError(str(path), "the device does not answer")

    looked_at(clean).remove()

    with pytest.raises(DiskError):
        looked_at(clean, Failing()).put_back(CleanShutdown(broker_epoch=EPOCH_OF_CLEAN))

    assert not (clean / MARKER).exists()
