"""Logs that a broker would delete or overwrite. tests/kafka/test_log_ends.py starts a broker on each."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.directory.refusal import RefusalKind
from stratalog.operations.doctor import Checkup
from stratalog.operations.recover import RecoverOptions, recover
from tests.directory.endings import BASE, END, HARMLESS, LOSING, REFUSED_END, Ending, starts_at
from tests.directory.refused import MARKER, Make, cut, refusals, remove


@pytest.mark.parametrize("ending", LOSING.values(), ids=LOSING)
def test_a_log_that_a_broker_deletes_or_overwrites_was_said_to_be_fine(clean: Path, ending: Ending) -> None:
    ending.make(clean)

    (found,) = refusals(clean)

    assert (found.kind, found.name, found.takes_offline) == (ending.kind, ending.name, False)


@pytest.mark.parametrize("make", HARMLESS.values(), ids=HARMLESS)
def test_what_does_not_change_the_end_of_a_log_is_no_reason(clean: Path, make: Make) -> None:
    make(clean)

    assert refusals(clean) == ()


def test_the_reason_has_the_numbers(clean: Path) -> None:
    LOSING["an index of noise"].make(clean)
    starts_at(99_999_999)(clean)

    index, start = refusals(clean)

    assert "ends at offset 80, but a broker takes 72 for its end" in index.reason
    assert "gives the offsets 72 to 79 again" in index.reason
    assert "rolled-0 starts at offset 99999999, but this log ends at offset 80" in start.reason
    assert "the line `rolled 0 99999999`: the first file of the log begins at offset 0" in start.remedy
    assert index.consequence == "A broker starts, and continues the log at a wrong offset because of it."
    assert start.consequence == "A broker starts, and deletes the whole log because of it."


def test_an_index_that_stops_a_broker_is_not_called_damage_of_the_log(clean: Path) -> None:
    REFUSED_END.make(clean)

    (found,) = refusals(clean)

    assert (found.kind, found.name) == (RefusalKind.LOG_END, REFUSED_END.name)
    assert found.remedy == "Run `stratalog recover --all`, which rebuilds the index from the log."


@pytest.mark.parametrize("ending", LOSING.values(), ids=LOSING)
def test_doctor_and_recover_say_the_same(clean: Path, ending: Ending) -> None:
    ending.make(clean)

    checked = Checkup(directories=[str(clean)]).run()
    recovered = recover([str(clean)], RecoverOptions())

    assert (checked.status, recovered.status) == (3, 3)
    assert checked.refusals == recovered.refusals
    assert checked.starts, "and then loses records"


@pytest.mark.parametrize("name", [name for name in LOSING if name != "a start past the end"])
def test_recover_all_gives_the_broker_the_real_end(clean: Path, name: str) -> None:
    LOSING[name].make(clean)

    planned = recover([str(clean)], RecoverOptions(scan_all=True, dry_run=True))
    done = recover([str(clean)], RecoverOptions(scan_all=True))

    assert (planned.refusals, done.refusals) == ((), ())
    assert planned.status == done.status == (1 if "cut" in name else 0)
    assert refusals(clean) == ()


def test_recover_all_says_what_a_start_past_the_end_costs(clean: Path) -> None:
    starts_at(99_999_999)(clean)

    planned = recover([str(clean)], RecoverOptions(scan_all=True, dry_run=True))
    done = recover([str(clean)], RecoverOptions(scan_all=True))

    assert planned.status == done.status == 1
    assert {cut.reason for cut in done.cuts} == {"the log ends at offset 80, before its start at 99999999"}
    assert sum(cut.size for cut in done.cuts) == 6070
    assert "kept in quarantine" in done.verdict


@pytest.mark.parametrize("name", LOSING)
def test_after_a_crash_these_are_left_to_recovery(clean: Path, name: str) -> None:
    LOSING[name].make(clean)
    remove(MARKER)(clean)

    assert refusals(clean) == ()


def test_a_start_past_an_empty_log_costs_nothing(clean: Path) -> None:
    for log in (clean / "rolled-0").glob("*.log"):
        cut(f"rolled-0/{log.name}", 0)(clean)
    starts_at(BASE + 1)(clean)

    assert refusals(clean) == ()


def test_a_copy_in_another_directory_may_end_before_the_start_of_its_log(clean: Path) -> None:
    future = "rolled-0.16d0e42cb57747578f152795418c656f-future"
    (clean / "rolled-0").rename(clean / future)
    starts_at(END + 5)(clean)

    assert [each for each in refusals(clean) if each.kind is RefusalKind.START_PAST_END] == []
