"""Logs that have lost records since a clean shutdown."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.directory.layout import classify
from stratalog.directory.short_logs import MISSING, short_logs_in
from stratalog.files.disk import Disk
from stratalog.operations.doctor import Checkup
from stratalog.operations.recover import RecoverOptions, recover
from tests.directory.endings import HARMLESS
from tests.directory.refused import ACTIVE, MARKER, Make, cut, folder, remove, write

LOSSES = {
    "emptied": (write(ACTIVE, b""), 72),
    "removed": (remove(ACTIVE), 72),
    "cut": (cut(ACTIVE, 345), 76),
}


@pytest.mark.parametrize(("make", "end"), LOSSES.values(), ids=LOSSES)
def test_doctor_and_recover_say_that_records_are_missing(clean: Path, make: Make, end: int) -> None:
    make(clean)
    words = (
        f"it ends at offset {end}, and its recovery point is 80, though the directory was shut down cleanly"
    )

    checked = Checkup(directories=[str(clean)]).run()
    recovered = recover([str(clean)], RecoverOptions())

    assert (checked.status, recovered.status) == (1, 1)
    (short,) = checked.short_logs
    assert (short.path, short.reason.lower()) == (str(clean / "rolled-0"), words)
    assert checked.may_start
    assert checked.verdict == "The broker can be started. Records of 1 log are missing."
    assert checked.totals()["short_logs"] == 1
    problems = recovered.result.directories[0].problems
    assert [(each.name, each.words, each.consequence) for each in problems] == [("rolled-0", words, MISSING)]


@pytest.mark.parametrize("make", HARMLESS.values(), ids=HARMLESS)
def test_a_whole_log_is_not_short(clean: Path, make: Make) -> None:
    make(clean)

    assert short_logs_in(Disk(), classify(Disk(), str(clean))) == []


def test_after_a_crash_a_recovery_point_proves_nothing(clean: Path) -> None:
    write(ACTIVE, b"")(clean)
    remove(MARKER)(clean)

    assert short_logs_in(Disk(), classify(Disk(), str(clean))) == []


def test_a_log_whose_end_cannot_be_read_is_left_to_the_refusals(clean: Path) -> None:
    folder(ACTIVE.replace(".log", ".index"))(clean)

    assert short_logs_in(Disk(), classify(Disk(), str(clean))) == []
