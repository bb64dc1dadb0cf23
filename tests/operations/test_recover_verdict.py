"""The verdict of `recover` on what it and earlier recoveries have cut off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stratalog.directory.clean_state import NOTE
from stratalog.operations.recover import PLANNED
from stratalog.operations.report import Status
from tests.directory.recovery.recovering import tear
from tests.operations.recovering import both, run


@pytest.mark.parametrize(
    ("before", "kept", "is_unknown", "keeps_cuts", "words"),
    [
        (40, 40, False, True, ": 56 bytes of its logs are cut off and kept in quarantine."),
        (40, 40, False, False, ": 56 bytes of its logs are cut off and 40 of them are kept in quarantine."),
        (40, 0, False, True, ": 56 bytes of its logs are cut off and 16 of them are kept in quarantine."),
        (40, 0, False, False, ": 56 bytes of its logs are cut off and not kept."),
        (
            0,
            0,
            True,
            True,
            ": 16 bytes of its logs are cut off and kept in quarantine. An earlier recovery may have cut off "
            "more: read the findings.",
        ),
    ],
)
def test_the_verdict_took_what_an_earlier_run_cut_off_for_its_own(
    killed: Path, before: int, kept: int, is_unknown: bool, keeps_cuts: bool, words: str
) -> None:
    tear(killed / "rolled-0", end=16)
    report = run(killed, keeps_cuts=keeps_cuts)
    (directory,) = report.result.directories
    directory = replace(directory, cut_before=before, kept_before=kept, has_unknown_cuts=is_unknown)

    report = replace(report, result=replace(report.result, directories=(directory,)))

    assert report.verdict == f"The broker can be started{words}"
    assert report.totals()["bytes_cut"] == 16 + before


def test_nothing_is_cut_off_was_said_where_nobody_knows(killed: Path) -> None:
    (killed / NOTE).write_bytes(bytes(50))

    for found in both(killed):
        assert found.verdict.removeprefix(PLANNED).capitalize() == (
            "The broker can be started, but read the findings: an earlier recovery may have cut something "
            "off."
        )
        assert found.status is Status.FINDINGS
