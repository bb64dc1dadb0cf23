"""A cleaner's checkpoint with a word for a number. tests/kafka/test_doctor.py starts a broker with one."""

from __future__ import annotations

from pathlib import Path

from stratalog.directory.refusal import RefusalKind
from stratalog.operations.doctor import Checkup
from stratalog.operations.recover import RecoverOptions, recover
from tests.directory.refused import CHECKPOINTS, refusals, write

NAME = "cleaner-offset-checkpoint"
WORD = b"0\n1\nrolled 0 many\n"


def test_a_checkpoint_that_ends_the_cleaner_was_said_to_be_fine(clean: Path) -> None:
    write(NAME, WORD)(clean)

    report = Checkup(directories=[str(clean)]).run()

    (found,) = report.refusals
    assert (found.kind, found.name, found.takes_offline) == (RefusalKind.CLEANER, NAME, False)
    assert (report.starts, report.status) == (True, 3)
    assert report.verdict == (
        f"The broker must not be started yet: it compacts no log because of {clean / NAME}."
    )
    assert found.consequence.startswith("A broker starts, but its cleaner ends")


def test_the_remedies_help(clean: Path) -> None:
    write(NAME, WORD)(clean)
    assert recover([str(clean)], RecoverOptions(scan_all=True)).status in (0, 1)
    assert refusals(clean) == ()

    write(NAME, WORD)(clean)
    (clean / NAME).unlink()
    assert refusals(clean) == ()


def test_a_dry_run_counts_what_recovery_rewrites(killed: Path) -> None:
    write(NAME, WORD)(killed)

    assert recover([str(killed)], RecoverOptions(dry_run=True)).refusals == ()


def test_a_garbled_one_is_reported_once(clean: Path) -> None:
    write(NAME, b"garbled\n")(clean)

    assert [(found.kind, found.takes_offline) for found in refusals(clean)] == [
        (RefusalKind.CHECKPOINT, True)
    ]


def test_other_checkpoints_with_a_word_are_taken_for_empty(clean: Path) -> None:
    for name in CHECKPOINTS:
        if name != NAME:
            write(name, WORD)(clean)

    assert refusals(clean) == ()
