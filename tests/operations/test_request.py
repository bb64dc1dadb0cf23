"""What a request opens: the directories, the topics that it names, and what is noted about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import NeedsRecoveryError, UsageError
from stratalog.operations.index import Reindexing
from stratalog.operations.maintaining import Maintenance
from stratalog.operations.read_progress import nobody
from stratalog.operations.request import NodeRequest
from stratalog.operations.retain import Retention
from tests.manager.running import MARKER, fixture_copy

POINTS = "recovery-point-offset-checkpoint"


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_request_opens_its_directories_with_their_topics(dry_run: bool, tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    opening = NodeRequest(directories=[str(data)], names=["codecs"]).opening(nobody)

    with opening.opened(dry_run=dry_run) as opened:
        opening.known_topics(opened)

        assert (list(opened.paths), opened.session is None, opened.notes) == ([str(data)], dry_run, ())


def test_a_name_that_is_not_there_is_refused(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    opening = NodeRequest(directories=[str(data)], names=["codecs", "codexes"]).opening(nobody)

    with (
        opening.opened(dry_run=True) as opened,
        pytest.raises(UsageError, match="codexes: there is no such topic"),
    ):
        opening.known_topics(opened)


def test_a_directory_that_was_not_shut_down_cleanly_is_refused_unless_recovery_is_requested(
    tmp_path: Path,
) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    (data / MARKER).unlink()

    with (
        pytest.raises(NeedsRecoveryError),
        NodeRequest(directories=[str(data)]).opening(nobody).opened(dry_run=True),
    ):
        pass


@pytest.mark.parametrize("dry_run", [True, False])
def test_every_report_notes_a_checkpoint_that_is_treated_as_empty(dry_run: bool, tmp_path: Path) -> None:
    found = []
    for work in ("index", "retain"):
        data = fixture_copy("clean", tmp_path / work)
        (data / POINTS).write_bytes(b"0\n1\ncodecs 0 many\n")
        if work == "index":
            found.append(Reindexing(directories=[str(data)], dry_run=dry_run).run().notes)
        else:
            found.append(Maintenance(directories=[str(data)], dry_run=dry_run).run(Retention()).notes)

    for notes in found:
        assert [note for note in notes if f"{POINTS}: " in note and "treated as empty" in note]
