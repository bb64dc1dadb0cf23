"""The clean-shutdown file while a directory is changed, and the note that replaces it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.directory.clean_shutdown import NO_PROMISE, SAYS_NOTHING, CleanShutdown
from stratalog.directory.clean_state import NOTE, CleanState, EarlierRuns, Note
from stratalog.directory.recovery.recover import recover_directories
from stratalog.directory.session import Session, Unclean
from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from tests.directory.recovery.recovering import EPOCH_OF_CLEAN, MARKER, copy_of, recover_one


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


def test_a_note_that_nobody_looked_at_goes_with_the_first_clean_shutdown(clean: Path) -> None:
    looked_at(clean).remove()

    CleanState(Disk(), str(clean)).put_back(NO_PROMISE)

    assert not (clean / NOTE).exists()


def with_cuts(clean: Path) -> EarlierRuns:
    """A note of two recoveries that have cut something off, and did not end."""
    state = looked_at(clean)
    state.remove()
    state.note_recovery("b", [str(clean), "/mnt/spare"])
    state.note_recovery("a", ["/mnt/other"])
    state.note_kept(str(clean))
    return EarlierRuns(
        runs=("a", "b"), places=(".", "/mnt/other", "/mnt/spare"), kept_in=(".",), keeps_all=True
    )


def test_the_runs_and_the_places_of_several_recoveries_are_in_the_note(clean: Path) -> None:
    wanted = with_cuts(clean)

    found = looked_at(clean).note

    assert found == Note(was_clean=True, said=CleanShutdown(broker_epoch=EPOCH_OF_CLEAN), earlier=wanted)


@pytest.mark.parametrize("appends", [False, True])
def test_a_session_that_ends_does_not_forget_what_a_recovery_has_cut_off(clean: Path, appends: bool) -> None:
    wanted = with_cuts(clean)
    looked_at(clean).put_back(NO_PROMISE)

    state = looked_at(clean)
    state.remove(leaves_note=not appends)
    assert looked_at(clean).note.was_clean is not appends
    state.put_back(NO_PROMISE)

    assert looked_at(clean).note.earlier == wanted
    looked_at(clean).forget_earlier()
    assert not (clean / NOTE).exists()
    assert (clean / MARKER).exists()


def test_a_clean_directory_with_cuts_that_nobody_has_told_is_not_left_alone(clean: Path) -> None:
    with_cuts(clean)
    looked_at(clean).put_back(CleanShutdown(broker_epoch=EPOCH_OF_CLEAN))

    report = recover_one(clean)

    assert report.has_unknown_cuts  # nothing is in the quarantines
    assert json.loads((clean / MARKER).read_text())["brokerEpoch"] == EPOCH_OF_CLEAN
    assert not (clean / NOTE).exists()


@pytest.mark.parametrize(
    ("registration", "said", "was_clean"),
    [
        (
            EPOCH_OF_CLEAN + 8,
            CleanShutdown(broker_epoch=EPOCH_OF_CLEAN),
            True,
        ),  # the broker has not run since
        (EPOCH_OF_CLEAN + 7, SAYS_NOTHING, False),
        (None, NO_PROMISE, True),  # nobody knows
    ],
)
def test_a_note_counts_until_the_broker_registers_again(
    clean: Path, registration: int | None, said: CleanShutdown, was_clean: bool
) -> None:
    state = looked_at(clean)
    state.know_registration(registration)
    state.remove()

    state = looked_at(clean)
    state.know_registration(EPOCH_OF_CLEAN + 8)

    assert (state.note.said, state.note.was_clean) == (said, was_clean)


@pytest.mark.parametrize(
    "field",
    [
        {"broker_epoch": 1 << 70},
        {"broker_epoch": -2},
        {"broker_epoch": True},
        {"registration": "7"},
        {"runs": "abc"},
        {"runs": None},
        {"places": [5]},
        {"kept_in": ["/a\0b"]},
        {"kept_in": ["\ud800"]},
        {"version": 1},
    ],
)
def test_a_note_with_a_field_that_no_note_has_is_the_worst_case(
    clean: Path, field: dict[str, object]
) -> None:
    note = {"version": 0, "was_clean": True, "broker_epoch": EPOCH_OF_CLEAN, "has_cut": False, **field}
    (clean / MARKER).unlink()
    (clean / NOTE).write_text(json.dumps(note))

    assert looked_at(clean).note == Note(has_cut=True, earlier=EarlierRuns(is_readable=False))
    report = recover_one(clean)
    assert (report.has_unknown_cuts, json.loads((clean / MARKER).read_text())["brokerEpoch"]) == (True, -1)
